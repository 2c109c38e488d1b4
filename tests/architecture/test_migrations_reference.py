"""docs/reference/migrations.md lists the migrations that the reconciler makes, and no others."""

import re
from pathlib import Path

from kb_reconciler.migrations.registry import MIGRATIONS
from kb_shared.mongo.schema_version import BEFORE_VERSIONS, OLDEST_READER, SCHEMA_VERSION

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs/reference/migrations.md").read_text()
DUMPS = ROOT / "tests/upgrade/dumps"


def test_the_reference_lists_every_migration_in_their_order() -> None:
    documented = re.findall(r"^\| (\d+) \| `(\w+)` \| (.*) \|$", REFERENCE, re.MULTILINE)
    assert documented == [(str(each.version), each.name, each.description) for each in MIGRATIONS]


def test_the_reference_gives_the_versions_of_this_code() -> None:
    stated = re.search(r"has schema version (\d+), and its oldest reader is (\d+)\.", REFERENCE)
    assert stated is not None
    assert (int(stated[1]), int(stated[2])) == (SCHEMA_VERSION, OLDEST_READER)


def test_each_migration_leads_to_a_version_of_its_own_that_this_code_knows() -> None:
    versions = [each.version for each in MIGRATIONS]
    assert versions == sorted(set(versions))
    assert all(BEFORE_VERSIONS < version <= SCHEMA_VERSION for version in versions)


def test_code_of_the_version_before_may_work_with_the_data_of_this_one() -> None:
    assert OLDEST_READER < SCHEMA_VERSION


def test_the_reference_lists_every_dump() -> None:
    documented = re.findall(r"^\| `dumps/([^`]+)` \|", REFERENCE, re.MULTILINE)
    assert sorted(documented) == sorted(path.name for path in DUMPS.iterdir())
