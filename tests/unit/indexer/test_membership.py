import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_shared.membership import Action, decide, membership
from kb_shared.mongo.document_index import IndexedDocument
from kb_shared.mongo.documents import Document, MetadataFacet, TagsFacet, TextFacet, chunk_metadata_digest
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from tests.knowledge_bases import build_knowledge_base

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def kb(*tags: str, kb_id: str = "k", **changed: Any) -> KnowledgeBase:
    return build_knowledge_base(kb_id=kb_id, tag_ids=tags, **changed)


def document(
    *tags: str, text: str | None = "t1", revision: int = 1, metadata: dict[str, Any] | None = None
) -> Document:
    return Document(
        "acme",
        "d",
        text=TextFacet(revision, "digest", text, "d.pdf", NOW) if text else None,
        tags=TagsFacet(1, "digest", tags),
        metadata=MetadataFacet(1, "digest", metadata or {}),
    )


def indexed(document: Document, kb: KnowledgeBase) -> IndexedDocument:
    assert document.text is not None
    return IndexedDocument(
        organization_id="acme",
        kb_id=kb.kb_id,
        document_id="d",
        version=1,
        chunk_count=3,
        text_revision=document.text.revision,
        content_digest=document.text.text_id,
        chunk_metadata_digest=chunk_metadata_digest(document),
        config_hash=kb.config_hash,
        document_name=document.text.name,
    )


def ids(kbs: Sequence[KnowledgeBase]) -> list[str]:
    return [kb.kb_id for kb in kbs]


tags = st.sets(st.sampled_from("abc"), max_size=3)


@given(of_document=tags, of_kbs=st.lists(tags, max_size=4), known=st.sets(st.integers(0, 3)))
def test_an_event_concerns_the_knowledge_bases_that_share_a_tag_and_those_that_know_the_document(
    of_document: set[str], of_kbs: list[set[str]], known: set[int]
) -> None:
    kbs = [kb(*sorted(of_kb), kb_id=str(n)) for n, of_kb in enumerate(of_kbs)]

    concerned = ids(membership(document(*sorted(of_document)), kbs, {str(n) for n in known}))

    assert concerned == [str(n) for n, of_kb in enumerate(of_kbs) if of_kb & of_document or n in known]


def test_a_document_is_indexed_where_it_belongs_and_is_not() -> None:
    assert decide(document("a", "x"), kb("a", "b"), None) is Action.INDEX


def test_nothing_is_done_about_a_document_without_drift() -> None:
    d, k = document("a"), kb("a")
    assert decide(d, k, indexed(d, k)) is Action.NOTHING
    assert decide(document("b"), k, None) is Action.NOTHING
    assert decide(None, k, None) is Action.NOTHING


def test_a_document_leaves_a_knowledge_base_when_its_last_shared_tag_goes() -> None:
    d, k = document("a"), kb("a", "b")
    assert decide(document("b"), k, indexed(d, k)) is not Action.REMOVE
    assert decide(document("c"), k, indexed(d, k)) is Action.REMOVE
    assert decide(document(), k, indexed(d, k)) is Action.REMOVE


def test_a_document_without_a_text_is_removed_where_it_is_and_waits_where_it_will_be() -> None:
    d, k = document("a"), kb("a")
    assert decide(document("a", text=None), k, indexed(d, k)) is Action.REMOVE
    assert decide(None, k, indexed(d, k)) is Action.REMOVE
    assert decide(document("a", text=None), k, None) is Action.WAIT
    assert decide(document("b", text=None), k, None) is Action.NOTHING


def test_another_text_or_another_way_to_cut_it_means_indexing() -> None:
    d, k = document("a"), kb("a")
    assert decide(document("a", text="t2", revision=2), k, indexed(d, k)) is Action.INDEX
    assert decide(d, kb("a", chunk_size=256), indexed(d, k)) is Action.INDEX
    assert decide(d, kb("a", embedding_model="hash-17"), indexed(d, k)) is Action.INDEX


def test_document_fields_in_chunks_are_updated_without_indexing() -> None:
    d, k = document("a"), kb("a")
    assert d.text is not None
    for changed in (
        document("a", "b"),
        document("a", metadata={"n": 1}),
        replace(d, text=replace(d.text, name="e.pdf")),
        replace(d, text=replace(d.text, upload_date=NOW + timedelta(milliseconds=1))),
    ):
        assert decide(changed, k, indexed(d, k)) is Action.REFRESH


def test_a_new_revision_of_the_same_content_is_only_acknowledged() -> None:
    d, k = document("a"), kb("a")
    assert decide(document("a", revision=2), k, indexed(d, k)) is Action.ACKNOWLEDGE
    assert decide(document("a", "b", revision=2), k, indexed(d, k)) is Action.REFRESH


def test_what_was_indexed_unchecked_is_checked_once_the_knowledge_base_refuses_credentials() -> None:
    d, accepting, refusing = document("a"), kb("a"), kb("a", refuse_sensitive=True)
    unchecked = indexed(d, accepting)
    checked = replace(unchecked, content_checked=True)
    assert decide(d, accepting, unchecked) is Action.NOTHING
    assert decide(d, accepting, checked) is Action.NOTHING
    assert decide(d, refusing, checked) is Action.NOTHING
    for changed in (d, document("a", revision=2), document("a", "b")):
        assert decide(changed, refusing, unchecked) is Action.CHECK
    assert decide(document("a", "b"), refusing, checked) is Action.REFRESH
    assert decide(document("a", text="t2"), refusing, unchecked) is Action.INDEX
    assert decide(document("b"), refusing, unchecked) is Action.REMOVE


@pytest.mark.parametrize("field", ["name", "description", "min_score", "coalesce_neighbors", "status", "tags_version"])
def test_settings_that_do_not_affect_chunks_or_vectors_do_not_change_the_configuration_hash(field: str) -> None:
    assert kb("a", **{field: "other"}).config_hash == kb("b").config_hash


def test_a_knowledge_base_that_is_older_than_normalization_keeps_its_hash_of_the_configuration() -> None:
    # Another hash would have every document of it indexed again.
    old = replace(
        kb("a"),
        chunker_type="recursive",
        chunk_size=512,
        chunk_overlap=128,
        embedding_model="text-embedding-3-small",
        embedding_dimensions=1536,
        text_normalization=1,
    )
    assert old.config_hash == "9f2c3084dd8556a4"
    assert replace(old, text_normalization=2).config_hash != old.config_hash
    # Not (…, 3), which an indexer that knows no other spellings computes: what it indexed is indexed again.
    settings = (old.chunker_type, old.chunk_size, old.chunk_overlap, old.embedding_model, old.embedding_dimensions)
    unaware = hashlib.sha256(repr((*settings, 3)).encode()).hexdigest()[:16]
    assert replace(old, text_normalization=3).config_hash not in (unaware, old.config_hash)
