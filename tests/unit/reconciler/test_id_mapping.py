"""An import gives documents and tags the ids that are asked for, and never those of entries."""

import pytest

from kb_reconciler.export.id_mapping import IdMapping
from kb_reconciler.export.kbx import UnreadableFile


@pytest.mark.parametrize(("prefix", "document_id"), [("", "entry-e1"), ("entry-", "d1"), ("ent", "ry-e1")])
def test_a_document_does_not_become_an_entry(prefix: str, document_id: str) -> None:
    with pytest.raises(UnreadableFile, match="--document-prefix"):
        IdMapping(document_prefix=prefix).map_document(document_id)


@pytest.mark.parametrize("mapping", [IdMapping(), IdMapping({"a": "kb.knowledge"})])
def test_a_tag_does_not_become_a_reserved_one(mapping: IdMapping) -> None:
    with pytest.raises(UnreadableFile, match=r"--tag kb\.knowledge=NEW"):
        mapping.map_tags(["a", "kb.knowledge"])


def test_an_exported_knowledge_base_of_entries_can_be_imported_as_one_of_documents() -> None:
    mapping = IdMapping({"kb.knowledge": "notes"}, document_prefix="of-")
    assert (mapping.map_document("entry-e1"), mapping.map_tags(["kb.knowledge", "a"])) == (
        "of-entry-e1",
        ["notes", "a"],
    )
