"""The package is imported quickly: heavy modules are imported when they are first used."""

import subprocess
import sys

import pytest

import kb_client

HEAVY = ("aiokafka", "asyncio", "httpx", "kb_contracts", "pydantic", "pymongo", "rich", "typer")


def loaded_by(program: str) -> set[str]:
    """Names of the heavy modules that are loaded after a program."""
    code = f"{program}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_by("import kb_client") == set()


def test_errors_and_the_configuration_need_neither_httpx_nor_pydantic() -> None:
    assert loaded_by("from kb_client import ApiError, UnusableConfiguration, Configuration") == set()


def test_the_client_loads_only_the_models_of_the_resources_that_are_used() -> None:
    program = """
import sys
from kb_client import Client
client = Client("http://kb", organization="acme", api_key="kb_0_0")
assert "kb_contracts.api.tags" not in sys.modules
client.tags
assert "kb_contracts.api.tags" in sys.modules
assert "kb_contracts.api.knowledge_bases" not in sys.modules
"""
    assert "aiokafka" not in loaded_by(program)


@pytest.mark.parametrize("name", kb_client.__all__)
def test_each_public_name_exists(name: str) -> None:
    assert getattr(kb_client, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Klient"):
        kb_client.Klient  # noqa: B018  # reading it is what fails
