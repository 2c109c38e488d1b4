"""The table of settings in the docs names what the services read, and nothing else."""

import re
from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from kb_api.settings import ApiSettings
from kb_indexer.settings import IndexerSettings
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
    "reconciler": ReconcilerSettings,
}
READ_BY_FAILPOINTS = "KB_FAILPOINT"


def documented(service: str) -> set[str]:
    rows = ROW.finditer(REFERENCE.read_text())
    return {row["name"] for row in rows if {"all", service} & {each.strip() for each in row["services"].split(",")}}


@pytest.mark.parametrize("service", SERVICES)
def test_every_setting_of_a_service_is_documented_and_nothing_else_is(service: str) -> None:
    read = {f"KB_{name.upper()}" for name in SERVICES[service].model_fields}
    assert documented(service) == read | {READ_BY_FAILPOINTS}


@pytest.mark.parametrize("service", SERVICES)
def test_the_page_of_a_service_names_the_settings_of_its_own(service: str) -> None:
    page = REFERENCE.parents[2] / "services" / service / "README.md"
    section = page.read_text().partition("## Settings")[2].partition("\n## ")[0]
    own = {name for name in SERVICES[service].__annotations__ if name in SERVICES[service].model_fields}
    assert set(re.findall(r"`(KB_\w+)`", section)) == {f"KB_{name.upper()}" for name in own}
