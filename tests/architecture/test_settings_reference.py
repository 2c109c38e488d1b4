"""The table of settings in the docs names what the services read, and nothing else."""

import re
from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from kb_api.settings import ApiSettings
from kb_console.settings import ConsoleSettings
from kb_indexer.settings import IndexerSettings
from kb_knowledge.runner.settings import RunnerSettings
from kb_knowledge.settings import KnowledgeSettings
from kb_reconciler.settings import ReconcilerSettings
from kb_search.settings import SearchSettings

REFERENCE = Path(__file__).parents[2] / "docs/reference/settings.md"
ROW = re.compile(r"^\| `(?P<name>KB_\w+)` \| (?P<services>[^|]*) \|", re.MULTILINE)
SERVICES: dict[str, type[BaseSettings]] = {
    "kb-api": ApiSettings,
    "indexer": IndexerSettings,
    "search": SearchSettings,
    "knowledge": KnowledgeSettings,
    "knowledge-runner": RunnerSettings,
    "reconciler": ReconcilerSettings,
    "console": ConsoleSettings,
}
READ_BY_FAILPOINTS = "KB_FAILPOINT"
WITHOUT_DATA = "console"
"""Service without MongoDB and Kafka, and without failpoints."""


def documented(service: str) -> set[str]:
    rows = ROW.finditer(REFERENCE.read_text())
    everywhere = {"all", f"all but {WITHOUT_DATA}"} if service != WITHOUT_DATA else {"all"}
    return {
        row["name"] for row in rows if {*everywhere, service} & {each.strip() for each in row["services"].split(",")}
    }


@pytest.mark.parametrize("service", SERVICES)
def test_every_setting_of_a_service_is_documented_and_nothing_else_is(service: str) -> None:
    read = {f"KB_{name.upper()}" for name in SERVICES[service].model_fields}
    assert documented(service) == read | (set() if service == WITHOUT_DATA else {READ_BY_FAILPOINTS})


@pytest.mark.parametrize("service", [service for service in SERVICES if service != "knowledge-runner"])
def test_the_page_of_a_service_names_the_settings_of_its_own(service: str) -> None:
    page = REFERENCE.parents[2] / "services" / service / "README.md"
    section = page.read_text().partition("## Settings")[2].partition("\n## ")[0]
    # A service and its runner have one page.
    settings = [SERVICES[each] for each in SERVICES if each.removesuffix("-runner") == service]
    own = {name for each in settings for name in _declared_in_the_service(each) if name in each.model_fields}
    assert set(re.findall(r"`(KB_\w+)`", section)) == {f"KB_{name.upper()}" for name in own}


def _declared_in_the_service(settings: type[BaseSettings]) -> set[str]:
    classes = [each for each in settings.__mro__ if each.__module__.startswith(settings.__module__.partition(".")[0])]
    return {name for each in classes for name in each.__annotations__}
