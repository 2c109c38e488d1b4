"""Only the topic of curated knowledge may name its documents and tags, and it may name no others."""

from datetime import UTC, datetime

import pytest

from kb_contracts.cloudevents import Payload
from kb_contracts.documents import DocumentDeleted, MetadataChanged, OcrCompleted, TagDeleted, TagsChanged, TagUpserted
from kb_contracts.errors import Rejected
from kb_indexer.consumer.reserved_ids import require_ids_of_topic


def completed(document_id: str = "d1", tag_ids: tuple[str, ...] = ("a",)) -> OcrCompleted:
    return OcrCompleted(
        organization_id="acme",
        document_id=document_id,
        revision=1,
        document_name="name",
        tag_ids=list(tag_ids),
        upload_date=datetime(2026, 1, 31, tzinfo=UTC),
        text="text",
    )


def about_document(document_id: str) -> list[Payload]:
    key = {"organization_id": "acme", "document_id": document_id, "revision": 1}
    return [
        completed(document_id),
        TagsChanged(**key, tag_ids=["a"]),
        MetadataChanged(**key, metadata={}),
        DocumentDeleted(**key),
    ]


def about_tag(tag_id: str) -> list[Payload]:
    return [TagUpserted(organization_id="acme", tag_id=tag_id), TagDeleted(organization_id="acme", tag_id=tag_id)]


WITH_RESERVED_TAG: list[Payload] = [
    completed(tag_ids=("a", "kb.knowledge")),
    TagsChanged(organization_id="acme", document_id="d1", revision=1, tag_ids=["kb."]),
    *about_tag("kb.knowledge"),
]


@pytest.mark.parametrize("event", [*about_document("entry-e1"), *about_document("entry-"), *WITH_RESERVED_TAG])
def test_an_upstream_may_not_name_documents_and_tags_of_curated_knowledge(event: Payload) -> None:
    with pytest.raises(Rejected) as refused:
        require_ids_of_topic(event, is_of_knowledge=False)
    assert refused.value.reason == "reserved-id"


@pytest.mark.parametrize(
    ("event", "detail"),
    [
        (
            completed("entry-7"),
            'document_id: must not begin with entry-, as ids of entries do, not "entry-7": choose another one',
        ),
        (
            completed(tag_ids=("a", "kb.x")),
            'tag_ids.1: must not begin with kb., as ids of curated knowledge do, not "kb.x": choose another one',
        ),
        (
            about_tag("kb.x")[0],
            'tag_id: must not begin with kb., as ids of curated knowledge do, not "kb.x": choose another one',
        ),
    ],
)
def test_a_reason_names_the_field_and_the_id_that_is_reserved(event: Payload, detail: str) -> None:
    with pytest.raises(Rejected) as refused:
        require_ids_of_topic(event, is_of_knowledge=False)
    assert refused.value.detail == detail


@pytest.mark.parametrize("event", [*about_document("an-entry-1"), *about_document("Entry-1"), *about_tag("akb.x")])
def test_an_upstream_may_name_all_others(event: Payload) -> None:
    require_ids_of_topic(event, is_of_knowledge=False)


@pytest.mark.parametrize("event", [*about_document("entry-les-rans.init_1"), *about_tag("kb.knowledge")])
def test_the_topic_of_knowledge_names_entries(event: Payload) -> None:
    require_ids_of_topic(event, is_of_knowledge=True)


@pytest.mark.parametrize(
    "event", [*about_document("d1"), *about_document("entry-"), *about_document("entry-" + "x" * 101), *about_tag("a")]
)
def test_the_topic_of_knowledge_may_not_name_another_document_or_tag(event: Payload) -> None:
    with pytest.raises(Rejected) as refused:
        require_ids_of_topic(event, is_of_knowledge=True)
    assert refused.value.reason == "not-knowledge"
