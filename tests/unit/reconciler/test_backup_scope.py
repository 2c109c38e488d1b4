"""Rows of a part of a deployment: the query and the function choose the same ones."""

import pytest

from kb_reconciler.backup.scope import BackupScope, Matching, Referenced, RowCondition, select_shared
from tests.knowledge_bases import build_knowledge_base

WHOLE = BackupScope()
ACME = BackupScope(organization_id="acme")
KB = BackupScope(kb_id="kb")


def test_a_prefix_ends_with_the_organization() -> None:
    condition = RowCondition("key", ("acme",), prefix="acme/")
    assert [
        key for key in ("acme", "acme/kb", "acme-2/kb", "acm", b"acme/kb", None) if condition.admits({"key": key})
    ] == [
        "acme",
        "acme/kb",
    ]
    assert condition.query() == {"$or": [{"key": {"$in": ["acme"]}}, {"key": {"$gte": "acme/", "$lt": "acme0"}}]}


def test_a_list_is_admitted_by_one_of_its_values() -> None:
    condition = Matching((RowCondition("tag_ids", ("a", "b")), RowCondition("organization_id", ("acme",))))
    assert condition.admits({"tag_ids": ["b", "c"], "organization_id": "acme"})
    assert not condition.admits({"tag_ids": ["c"], "organization_id": "acme"})
    assert not condition.admits({"tag_ids": ["a"], "organization_id": "other"})
    assert not condition.admits({})


@pytest.mark.parametrize(
    ("backup", "wanted", "is_covered"),
    [
        (WHOLE, ACME, True),
        (WHOLE, KB, True),
        (ACME, KB, True),
        (ACME, BackupScope(organization_id="other"), False),
        (ACME, BackupScope(organization_id="other", kb_id="kb"), False),
        (KB, ACME, False),
        (KB, BackupScope(kb_id="other"), False),
        (ACME, WHOLE, False),
    ],
)
def test_a_backup_covers_its_parts(backup: BackupScope, wanted: BackupScope, *, is_covered: bool) -> None:
    assert backup.covers(wanted) is is_covered


def test_a_collection_that_is_not_known_is_in_whole_backups_alone() -> None:
    assert select_shared("of_a_newer_version", WHOLE) == Matching(())
    assert select_shared("of_a_newer_version", ACME) is None
    assert select_shared("of_a_newer_version", KB, build_knowledge_base()) is None


def test_keys_are_of_no_knowledge_base() -> None:
    kb = build_knowledge_base(tag_ids=("a",))
    assert select_shared("api_keys", KB, kb) is None
    assert select_shared("llm_providers", KB, kb) is None
    assert isinstance(select_shared("document_texts", KB, kb), Referenced)
