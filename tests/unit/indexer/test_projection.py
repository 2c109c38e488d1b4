import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from kb_contracts.documents import DocumentDeleted, DocumentEvent, MetadataChanged, OcrCompleted, TagsChanged
from kb_contracts.metadata import MetadataWarning
from kb_shared.membership.projection import apply
from kb_shared.mongo.document_texts import text_id
from kb_shared.mongo.documents import Document, chunk_metadata_digest
from kb_shared.mongo.keys import DocumentKey

EMPTY = Document("acme", "d")
UPLOADED = datetime(2026, 1, 31, tzinfo=UTC)


def ocr(
    revision: int,
    text: str = "text",
    *,
    tags: Sequence[str] = ("a",),
    metadata: dict[str, str | int | bool] | None = None,
    name: str = "d.pdf",
    uploaded: datetime = UPLOADED,
    source_digest: str | None = None,
    warnings: Sequence[str] = (),
    unread: Sequence[str] = (),
) -> OcrCompleted:
    return OcrCompleted(
        organization_id="acme",
        document_id="d",
        revision=revision,
        document_name=name,
        tag_ids=list(tags),
        upload_date=uploaded,
        text=text,
        metadata=dict(metadata) if metadata is not None else None,
        source_digest=source_digest,
        metadata_warnings=warned_of(warnings),
        reading_warnings=tuple(unread) or None,
    )


def warned_of(keys: Sequence[str]) -> tuple[MetadataWarning, ...] | None:
    return tuple(MetadataWarning(field=f"metadata.{key}", message="is a list") for key in keys) or None


def tagged(revision: int, *tags: str) -> TagsChanged:
    return TagsChanged(organization_id="acme", document_id="d", revision=revision, tag_ids=list(tags))


def described(revision: int, metadata: dict[str, str | int | bool], *, warnings: Sequence[str] = ()) -> MetadataChanged:
    return MetadataChanged(
        organization_id="acme",
        document_id="d",
        revision=revision,
        metadata=dict(metadata),
        metadata_warnings=warned_of(warnings),
    )


def deleted(revision: int) -> DocumentDeleted:
    return DocumentDeleted(organization_id="acme", document_id="d", revision=revision)


def step(state: Document, event: DocumentEvent) -> Document:
    stored = text_id(DocumentKey("acme", "d"), event.text or "", []) if isinstance(event, OcrCompleted) else None
    return apply(state, event, text_id=stored)


def after(*events: DocumentEvent) -> Document:
    return reduce(step, events, EMPTY)


# Few values of each kind, so that revisions and contents often tie.
revisions = st.integers(0, 4)
tag_lists = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3)
metadata_values = st.dictionaries(
    st.sampled_from(["k", "l"]), st.sampled_from(["1", 1, 0, True, False]), max_size=2
)  # fmt: skip
left_out = st.lists(st.sampled_from(["k", "m"]), max_size=2)
events = st.one_of(
    st.builds(
        ocr,
        revisions,
        st.sampled_from(["one", "two"]),
        tags=tag_lists,
        metadata=st.none() | metadata_values,
        name=st.sampled_from(["x", "y"]),
        source_digest=st.sampled_from([None, "1", "2"]),
        warnings=left_out,
        unread=st.sampled_from([(), ("page 2",), ("page 3",)]),
    ),
    st.builds(lambda revision, tags: tagged(revision, *tags), revisions, tag_lists),
    st.builds(described, revisions, metadata_values, warnings=left_out),
    st.builds(deleted, revisions),
)


@given(st.lists(events, max_size=8).flatmap(lambda e: st.tuples(st.just(e), st.permutations(e), st.permutations(e))))
def test_any_order_and_repetition_of_the_same_events_ends_in_the_same_document(
    orders: tuple[list[DocumentEvent], list[DocumentEvent], list[DocumentEvent]],
) -> None:
    in_order, in_another, again = orders
    assert after(*in_another) == after(*in_order)
    assert after(*in_another, *again) == after(*in_order)


def test_a_thousand_orders_of_the_life_of_a_document_end_in_the_same_document() -> None:
    life = [
        ocr(1, "draft", tags=["a", "b"], metadata={"n": 1}),
        tagged(2, "b"),
        described(3, {"n": 2, "language": "en"}),
        ocr(4, "final", tags=["c"]),
        ocr(4, "final, scanned twice", tags=["c", "d"], metadata={"n": 3}),
        deleted(5),
        tagged(5, "lost-with-the-deletion"),
        ocr(6, "risen", tags=["a"]),
        ocr(6, "risen", tags=["a"], name="renamed.pdf"),
        tagged(7, "a", "z"),
        deleted(2),
    ]
    expected = after(*life)
    assert expected.tag_ids == ("a", "z")
    assert expected.metadata is None

    shuffled = random.Random(20260131)
    for _ in range(1000):
        order = shuffled.sample(life, len(life)) + shuffled.choices(life, k=3)
        assert after(*order) == expected, [type(event).__name__ for event in order]


def test_each_facet_keeps_its_own_newest_revision() -> None:
    document = after(ocr(5, tags=["a"], metadata={"n": 1}), tagged(9, "b"), described(3, {"n": 0}))

    assert document.text is not None
    assert document.text.revision == 5
    assert document.tag_ids == ("b",)
    assert document.metadata_values == {"n": 1}


def test_a_deletion_makes_absent_what_is_no_newer_than_itself() -> None:
    assert not after(ocr(3), deleted(3)).alive
    assert not after(deleted(3), ocr(3)).alive
    assert after(deleted(3), ocr(4)).alive
    assert after(ocr(4), deleted(3)).alive


def test_events_after_a_deletion_wait_for_the_text_of_the_document() -> None:
    document = after(ocr(1), deleted(2), tagged(3, "b"), described(3, {"n": 1}))

    assert not document.alive
    assert (document.tag_ids, document.metadata_values) == (("b",), {"n": 1})


def test_the_latest_of_several_deletions_counts() -> None:
    assert after(deleted(5), deleted(2), ocr(4)) == after(ocr(4), deleted(5))


def test_metadata_absent_from_an_ocr_event_stay_as_they_were_and_empty_ones_replace_them() -> None:
    assert after(ocr(1, metadata={"n": 1}), ocr(2)).metadata_values == {"n": 1}
    assert after(ocr(1, metadata={"n": 1}), ocr(2, metadata={})).metadata_values == {}


def test_different_contents_of_one_revision_come_out_alike_whichever_came_first() -> None:
    one, two = ocr(1, "one"), ocr(1, "two")
    assert after(one, two) == after(two, one)

    assert after(described(1, {"n": 1}), described(1, {"n": "1"})) == after(
        described(1, {"n": "1"}), described(1, {"n": 1})
    )
    assert after(described(1, {"n": 1}), described(1, {"n": True})) == after(
        described(1, {"n": True}), described(1, {"n": 1})
    )


def test_an_event_that_comes_again_changes_nothing() -> None:
    document = after(ocr(1, metadata={"n": 1}))
    assert step(document, ocr(1, metadata={"n": 1})) == document


def test_tags_are_a_set() -> None:
    assert after(tagged(1, "b", "a", "b")) == after(tagged(1, "a", "b"))


def test_a_time_is_kept_in_milliseconds_of_utc_as_the_database_does() -> None:
    local = timezone(timedelta(hours=5, minutes=30))
    moment = datetime(2026, 1, 31, 12, 30, 0, 123456, tzinfo=local)

    document = after(ocr(1, uploaded=moment))

    assert document.text is not None
    assert document.text.upload_date == datetime(2026, 1, 31, 7, 0, 0, 123000, tzinfo=UTC)
    assert document == after(ocr(1, uploaded=moment.astimezone(UTC)))


def test_the_digest_of_a_file_belongs_to_the_text_that_came_with_it() -> None:
    pushed = after(ocr(1, source_digest="1"))
    assert pushed.text is not None
    assert pushed.text.source_digest == "1"
    edited = after(ocr(1, source_digest="1"), ocr(2, "edited by hand"))
    assert edited.text is not None
    assert edited.text.source_digest is None


def test_a_text_without_the_digest_of_a_file_has_the_facet_digest_of_earlier_versions() -> None:
    # Replicas of an earlier version would decide between events of the same revision in another way.
    document = after(ocr(1))
    assert document.text is not None
    assert document.text.digest == "9b65173832e47128541f9daf3461d9d2"


def test_warnings_belong_to_the_metadata_that_they_are_about() -> None:
    warned = after(ocr(1, metadata={"n": 1}, warnings=["authors"]))
    assert warned.warnings == warned_of(["authors"])
    assert after(ocr(1, metadata={"n": 1}, warnings=["authors"]), ocr(2), tagged(3, "b")).warnings == warned.warnings
    assert after(ocr(1, metadata={"n": 1}, warnings=["authors"]), described(2, {"n": 1})).warnings == ()
    assert after(described(2, {"n": 1}), ocr(1, metadata={"n": 1}, warnings=["authors"])).warnings == ()
    assert after(described(1, {"n": 1}, warnings=["authors"]), deleted(1)).warnings == ()


def test_metadata_with_and_without_warnings_of_one_revision_come_out_alike_whichever_came_first() -> None:
    one, two = described(1, {"n": 1}), described(1, {"n": 1}, warnings=["authors"])
    assert after(one, two) == after(two, one)


def test_what_could_not_be_read_belongs_to_the_text_and_comes_out_alike_whichever_came_first() -> None:
    one, two = ocr(1, "text"), ocr(1, "text", unread=["page 2 is a picture"])
    assert after(one, two) == after(two, one)
    shown = [(each.field, each.message) for each in after(two, described(2, {"n": 1})).warnings]
    assert shown == [("text", "page 2 is a picture")]
    assert after(two, ocr(3, "text")).warnings == ()


def test_neither_the_order_nor_the_words_of_warnings_make_other_metadata() -> None:
    one, two = MetadataWarning(field="metadata.a", message="x"), MetadataWarning(field="metadata.b", message="x")
    reworded = MetadataWarning(field="metadata.b", message="y")
    digests = set()
    for warnings in ((one, two), (two, one), (one, reworded)):
        document = apply(
            Document("acme", "d"),
            MetadataChanged(
                organization_id="acme", document_id="d", revision=1, metadata={"n": 1}, metadata_warnings=warnings
            ),
        )
        assert document.metadata is not None
        digests.add(document.metadata.digest)
    assert len(digests) == 1


def test_metadata_without_warnings_have_the_facet_digest_of_earlier_versions() -> None:
    document = after(described(1, {"n": 1}))
    assert document.metadata is not None
    assert document.metadata.digest == "93975d414587263f6086fe6865531187"


def test_a_change_of_the_warnings_alone_is_drift_so_that_it_is_announced() -> None:
    plain, warned = after(ocr(1, metadata={})), after(ocr(1, metadata={}, warnings=["authors"]))
    assert chunk_metadata_digest(plain) != chunk_metadata_digest(warned)
    assert chunk_metadata_digest(plain) == "30af97c63155249df9803190d94f5259"
