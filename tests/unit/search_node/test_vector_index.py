import asyncio
import threading
from typing import Any

import numpy as np
import pytest
from bson import Binary
from bson.binary import BinaryVectorDtype
from hypothesis import given
from hypothesis import strategies as st

from kb_local.search_node import vector_index
from kb_local.search_node.query import VectorQuery
from kb_local.search_node.rows import Rows
from kb_local.search_node.values import Vector
from kb_local.search_node.vector_column import BLOCK_ROWS, VectorColumn
from kb_local.search_node.vector_definitions import VectorField, parse_vector_definition
from kb_local.search_node.vector_index import VectorIndex
from tests.waiting import BRAKE_S

VECTOR = {"type": "vector", "path": "e", "numDimensions": 4, "similarity": "cosine"}
DEFINITION = parse_vector_definition({"fields": [VECTOR, {"type": "filter", "path": "k"}]}, where="definition")


def query(vector: list[float], limit: int = 10_000) -> VectorQuery:
    return VectorQuery("i", "e", np.asarray(vector, np.float32), limit, None)


def packed(vector: Vector) -> Binary:
    return Binary.from_vector(vector.tolist(), BinaryVectorDtype.FLOAT32)


@pytest.mark.parametrize("similarity", ["cosine", "dotProduct", "euclidean"])
@pytest.mark.parametrize("share", [0.01, 0.4, 1.0])
def test_scores_are_the_same_however_many_rows_of_a_block_are_wanted(similarity: Any, share: float) -> None:
    rng = np.random.default_rng(3)
    column = VectorColumn(VectorField("e", 8, similarity))
    vectors = rng.normal(size=(2 * BLOCK_ROWS + 100, 8)).astype(np.float32)
    for row, vector in enumerate(vectors):
        column.put(row, vector)
    wanted = np.flatnonzero(rng.random(len(vectors)) < share)
    asked = rng.normal(size=8).astype(np.float32)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = {
        "cosine": (1 + units @ (asked / np.linalg.norm(asked))) / 2,
        "dotProduct": np.maximum((1 + vectors @ asked) / 2, 0),
        "euclidean": 1 / (1 + ((vectors - asked) ** 2).sum(1)),
    }[similarity]
    np.testing.assert_allclose(column.scores(wanted, asked), expected[wanted], rtol=1e-4)


@given(st.lists(st.tuples(st.sampled_from(["put", "unindexable", "remove"]), st.integers(0, 5)), max_size=40))
def test_the_index_holds_what_the_last_change_of_each_document_says(changes: list[tuple[str, int]]) -> None:
    index, expected = VectorIndex(DEFINITION), set[int]()
    for kind, number in changes:
        expected.discard(number)
        if kind == "remove":
            index.remove(number)
        else:
            index.upsert({"_id": number, "e": [1.0, number, 0.0, 0.0] if kind == "put" else "text", "k": number % 2})
            expected |= {number} if kind == "put" else set()
    hits = asyncio.run(index.search(query([1.0, 0.0, 0.0, 0.0])))
    assert set(hits.ids) == expected


def test_a_row_is_not_reused_while_a_search_that_may_read_it_runs() -> None:
    rows = Rows()
    first = rows.allocate()
    with rows.reading():
        rows.release(first)
        assert rows.allocate() != first
        with rows.reading():
            pass
        assert rows.allocate() != first
    assert rows.allocate() == first


async def test_a_search_in_a_thread_sees_the_vectors_as_they_were_when_it_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vector_index, "INLINE_FLOATS", 0)
    index = VectorIndex(DEFINITION)
    for number in range(100):
        index.upsert({"_id": number, "e": packed(np.asarray([1, 0, 0, 0], np.float32))})
    began, changed = threading.Event(), threading.Event()
    scores = VectorColumn.scores

    def slow_scores(column: VectorColumn, *arguments: Any) -> Any:
        began.set()
        assert changed.wait(BRAKE_S)
        return scores(column, *arguments)

    monkeypatch.setattr(VectorColumn, "scores", slow_scores)
    searching = asyncio.create_task(index.search(query([1.0, 0.0, 0.0, 0.0])))
    assert await asyncio.to_thread(began.wait, BRAKE_S)
    for number in range(100):
        index.upsert({"_id": number, "e": packed(np.asarray([-1, 0, 0, 0], np.float32))})
        index.remove(number)
        index.upsert({"_id": f"new {number}", "e": packed(np.asarray([0, 1, 0, 0], np.float32))})
    changed.set()
    hits = await searching
    assert sorted(hits.ids) == list(range(100))
    assert hits.scores == [1.0] * 100
