"""What the package of an upstream service or of a reconciler installs."""

import re
from importlib.metadata import requires
from typing import Final

from packaging.requirements import Requirement

NOT_FOR_PUBLISHING: Final = {"fastapi", "httptools", "litellm", "numpy", "pymongo", "starlette", "uvicorn", "uvloop"}


def installed_with(requirement: str) -> set[str]:
    """Return the names of all distributions that a requirement brings with it, itself included."""
    found: set[str] = set()
    left = [Requirement(requirement)]
    seen: set[tuple[str, str]] = set()
    while left:
        wanted = left.pop()
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        found.add(name)
        for extra in ("", *wanted.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                declared = [Requirement(each) for each in requires(wanted.name) or ()]
                left += [each for each in declared if each.marker is None or each.marker.evaluate({"extra": extra})]
    return found


def test_publishing_an_event_installs_no_database_driver_and_no_web_framework() -> None:
    installed = installed_with("kb-client[kafka]")
    assert {"aiokafka", "cramjam", "kb-contracts", "kb-shared", "pydantic"} <= installed
    assert installed & NOT_FOR_PUBLISHING == set()


def test_a_client_without_extras_needs_only_contracts_and_httpx() -> None:
    assert {each for each in installed_with("kb-client") if each.startswith("kb-")} == {"kb-client", "kb-contracts"}


def test_contracts_need_only_pydantic_and_jinja2_for_its_templates() -> None:
    assert installed_with("kb-contracts") - installed_with("pydantic") == {"kb-contracts"}
    assert installed_with("kb-contracts[jinja2]") - installed_with("kb-contracts") == {"jinja2", "markupsafe"}


def test_the_reconciler_installs_nothing_for_models() -> None:
    assert installed_with("kb-reconciler") & {"chonkie", "fastapi", "httpx", "litellm", "numpy", "tiktoken"} == set()
