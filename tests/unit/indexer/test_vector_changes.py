"""What a swap writes, tried out on rows in memory."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo import InsertOne, ReplaceOne, UpdateMany, UpdateOne

from kb_shared.mongo.chunks_digest import hash_text, hash_vector
from kb_shared.mongo.vector import from_binary, to_binary
from kb_shared.mongo.vectors import Changes, ChunkMetadata, EmbeddedChunk, chunk_ids, plan_changes

SCOPE = {"organization_id": "acme", "kb_id": "k"}
UPLOADED = datetime(2026, 1, 31, tzinfo=UTC)

Rows = dict[str, dict[str, Any]]


def chunk_metadata(*tags: str, name: str = "d.pdf") -> ChunkMetadata:
    return ChunkMetadata(name, tags, UPLOADED, {}, ())


def chunk(index: int, text: str) -> EmbeddedChunk:
    chunk_hash = hashlib.sha256(text.encode()).hexdigest()
    vector = np.frombuffer(bytes.fromhex(chunk_hash), dtype=np.uint8).astype(np.float32)
    return EmbeddedChunk(
        chunk_index=index,
        chunk_hash=chunk_hash,
        passage_hash=chunk_hash,
        text=text,
        vector=vector,
        token_count=1,
        start=index,
        end=index + 1,
        page_start=None,
        page_end=None,
        heading_path=(),
        chunk_type="text",
    )


def chunks(texts: Sequence[str]) -> list[EmbeddedChunk]:
    return [chunk(index, text) for index, text in enumerate(texts)]


def swap(rows: Rows, texts: Sequence[str], *, version: int, carried: ChunkMetadata | None = None) -> Changes:
    """Do to `rows` what MongoDB does with the writes of a swap."""
    made = plan_changes(
        scope=SCOPE,
        document_id="d",
        chunks=chunks(texts),
        metadata=carried or chunk_metadata("a"),
        version=version,
        before=[as_found(row) for row in rows.values()],
    )
    for write in made.writes:
        match write:
            case InsertOne():
                assert write._doc["_id"] not in rows
                rows[write._doc["_id"]] = dict(write._doc)
            case ReplaceOne():
                assert_scoped(write._filter)
                rows[write._filter["_id"]] = dict(write._doc)
            case UpdateOne():
                assert_scoped(write._filter)
                assert isinstance(write._doc, Mapping)
                rows[write._filter["_id"]].update(write._doc["$set"])
            case UpdateMany():
                assert_scoped(write._filter)
                assert isinstance(write._doc, Sequence)
                for identity in write._filter["_id"]["$in"]:
                    rows[identity].update(write._doc[0]["$set"])
    return made


def as_found(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row as `find_rows` gives it."""
    hashes = {"text_hash": hash_text(row["chunk_text"]), "vector_hash": hash_vector(row["embedding"])}
    return {name: value for name, value in row.items() if name not in ("chunk_text", "embedding")} | hashes


def assert_scoped(query: Mapping[str, Any]) -> None:
    assert query.items() >= SCOPE.items()


def live(rows: Rows) -> list[str]:
    return [
        row["chunk_text"]
        for row in sorted(
            (row for row in rows.values() if row["until"] is None), key=lambda row: int(row["chunk_index"])
        )
    ]


texts_of_a_document = st.lists(st.sampled_from("pqrs"), max_size=6)


@given(st.lists(texts_of_a_document, max_size=6))
def test_after_any_swaps_the_live_rows_are_the_text_and_an_id_always_means_one_text_and_one_vector(
    documents: list[list[str]],
) -> None:
    rows: Rows = {}
    meaning: dict[str, tuple[str, bytes]] = {}
    for version, texts in enumerate(documents, start=1):
        swap(rows, texts, version=version)
        assert live(rows) == texts
        for identity, row in rows.items():
            assert meaning.setdefault(identity, (row["chunk_text"], row["embedding"])) == (
                row["chunk_text"],
                row["embedding"],
            )
            expected = chunk(0, row["chunk_text"]).vector
            assert np.array_equal(from_binary(row["embedding"]), expected)


@given(st.lists(texts_of_a_document, max_size=6))
def test_a_version_never_shows_a_retired_chunk_that_it_did_not_have(documents: list[list[str]]) -> None:
    rows: Rows = {}
    for version, texts in enumerate(documents, start=1):
        swap(rows, texts, version=version)
    for version, texts in enumerate(documents, start=1):
        retired = [row for row in rows.values() if row["until"] is not None]
        shown = {row["chunk_text"] for row in retired if row["since"] <= version <= row["until"]}
        assert shown <= set(texts)


def test_a_document_that_has_not_changed_writes_nothing() -> None:
    rows: Rows = {}
    swap(rows, "pqr", version=1)
    assert swap(rows, "pqr", version=2) == Changes([], (), 0)


def test_a_row_has_the_text_that_is_embedded_in_place_of_its_own_and_gets_it_back_when_it_is_damaged() -> None:
    def plan(version: int, *before: Mapping[str, Any]) -> Changes:
        embedded = replace(chunk(0, "p"), embedding_text="q")
        return plan_changes(
            scope=SCOPE,
            document_id="d",
            chunks=[embedded],
            metadata=chunk_metadata("a"),
            version=version,
            before=list(map(as_found, before)),
        )

    [insert] = plan(1).writes
    assert isinstance(insert, InsertOne)
    row = dict(insert._doc)
    assert (row["chunk_text"], row["embedding_text"]) == ("p", "q")
    assert plan(2, row).writes == []
    [repair] = plan(2, row | {"embedding_text": "x"}).writes
    assert isinstance(repair, UpdateOne)
    assert isinstance(repair._doc, Mapping)
    assert repair._doc["$set"]["embedding_text"] == "q"


@pytest.mark.parametrize(
    "harm", [{"chunk_text": "x"}, {"chunk_hash": "x"}, {"embedding": to_binary(chunk(0, "x").vector)}]
)
def test_a_live_row_whose_content_is_not_that_of_its_id_is_written_again(harm: Mapping[str, Any]) -> None:
    rows: Rows = {}
    swap(rows, "pqr", version=1)
    damaged = next(iter(rows.values()))
    before = dict(damaged)
    damaged.update(harm)

    changes = swap(rows, "pqr", version=2)

    assert (len(changes.writes), changes.inserted, changes.retired) == (1, (), 0)
    assert damaged | {"indexed_at": None} == before | {"indexed_at": None}


def test_the_nth_occurrence_of_a_text_has_an_id_of_its_own() -> None:
    identities = list(chunk_ids("d", chunks("pqp")))

    assert len(set(identities)) == 3
    assert [identity.rsplit(":", 1)[1] for identity in identities] == ["0", "0", "1"]
    assert list(chunk_ids("d", chunks("pp"))) == [identities[0], identities[2]]


def test_a_paragraph_inserted_at_the_head_moves_the_others_and_inserts_one() -> None:
    rows: Rows = {}
    swap(rows, "pqr", version=1)

    made = swap(rows, "spqr", version=2)

    assert len(made.inserted) == 1
    assert made.retired == 0
    assert sorted(type(write).__name__ for write in made.writes) == ["InsertOne"] + ["UpdateOne"] * 3
    assert {row["since"] for row in rows.values()} == {1, 2}


def test_a_removed_chunk_is_retired_at_the_version_before() -> None:
    rows: Rows = {}
    swap(rows, "pq", version=1)
    swap(rows, "pq", version=2)

    made = swap(rows, "p", version=3)

    assert made.retired == 1
    gone = next(row for row in rows.values() if row["chunk_text"] == "q")
    assert (gone["since"], gone["until"], gone["retired_at"]) == (1, 2, "$$NOW")


def test_a_chunk_that_comes_back_is_revived_under_its_old_id() -> None:
    rows: Rows = {}
    swap(rows, "pq", version=1)
    swap(rows, "p", version=2)

    made = swap(rows, "pq", version=3)

    back = next(row for row in rows.values() if row["chunk_text"] == "q")
    assert made.inserted == (back["_id"],)
    assert (back["since"], back["until"]) == (3, None)
    assert "retired_at" not in back
    assert len(rows) == 2


def test_rows_retired_before_are_left_alone() -> None:
    rows: Rows = {}
    swap(rows, "pq", version=1)
    swap(rows, "p", version=2)
    assert swap(rows, "p", version=3) == Changes([], (), 0)


def test_document_fields_in_chunks_are_updated_in_place() -> None:
    rows: Rows = {}
    swap(rows, "pq", version=1)

    made = swap(rows, "pq", version=2, carried=chunk_metadata("a", "b", name="e.pdf"))

    assert made.inserted == ()
    assert {(row["document_name"], tuple(row["tag_ids"]), row["since"]) for row in rows.values()} == {
        ("e.pdf", ("a", "b"), 1)
    }


def test_an_id_names_a_passage_and_not_the_vector_that_passages_share() -> None:
    # "filter" with a ligature and without: embedded alike, and shown as it is written.
    first, second = chunk(0, "filter"), replace(chunk(1, "filter"), text="\ufb01lter", passage_hash="b" * 64)
    assert list(chunk_ids("d", [first, second, first])) == [
        f"d:{first.passage_hash[:24]}:0",
        f"d:{'b' * 24}:0",
        f"d:{first.passage_hash[:24]}:1",
    ]
