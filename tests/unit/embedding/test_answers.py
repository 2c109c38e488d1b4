import base64
from typing import Any

import numpy as np
import pytest

from kb_shared.embedding.answers import BadAnswer, vectors_of


def entry(index: int, *numbers: float) -> dict[str, Any]:
    return {"object": "embedding", "index": index, "embedding": list(numbers)}


def packed(index: int, *numbers: float) -> dict[str, Any]:
    return {"index": index, "embedding": base64.b64encode(np.array(numbers, dtype="<f4").tobytes()).decode()}


@pytest.mark.parametrize("make", [entry, packed])
def test_vectors_stand_in_the_order_of_the_texts_whatever_the_order_of_the_answer(make: Any) -> None:
    vectors = vectors_of([make(2, 3, 3), make(0, 1, 1), make(1, 2, 2)], count=3, dimensions=2)

    assert [vector.tolist() for vector in vectors] == [[1, 1], [2, 2], [3, 3]]
    assert {vector.dtype for vector in vectors} == {np.dtype("<f4")}


def test_vectors_that_are_counted_from_one_or_lie_in_a_list_are_those_of_the_texts() -> None:
    vectors = vectors_of([entry(2, 0, 1), {"index": 1, "embedding": [[1, 0]]}], count=2, dimensions=2)

    assert [vector.tolist() for vector in vectors] == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([entry(1, 1, 0)], id="short"),
        pytest.param([], id="empty"),
        pytest.param(None, id="nothing"),
        pytest.param("malformed", id="not a list"),
        pytest.param([entry(0, 1, 0), entry(1, 0, 1), entry(1, 1, 1)], id="a vector too many"),
        pytest.param([entry(2, 1, 0), entry(3, 0, 1)], id="counted from two"),
        pytest.param([entry(0, 1, 0), {"index": 1}], id="no embedding"),
        pytest.param([entry(0, 1, 0), {"index": 1, "embedding": None}], id="null"),
        pytest.param([entry(0, 1, 0), {"index": 1, "embedding": ["a", "b"]}], id="words"),
        pytest.param([entry(0, 1, 0), {"index": 1, "embedding": [[1, 0], [0, 1]]}], id="a matrix"),
        pytest.param([entry(0, 1, 0), {"index": 1, "embedding": "AAA"}], id="broken base64"),
        pytest.param([entry(0, 1, 0), {"index": 1, "embedding": "AAAA"}], id="three bytes"),
        pytest.param([packed(0, 1, 0), packed(1, 1, 0, 0)], id="too long"),
        pytest.param([packed(0, 1, 0), packed(1, 1)], id="too short"),
        pytest.param([packed(0, 1, 0), packed(1, np.nan, 0)], id="nan"),
        pytest.param([packed(0, 1, 0), packed(1, np.inf, 0)], id="infinite"),
        pytest.param([packed(0, 1, 0), entry(1, 1e300, 0)], id="beyond float32"),
        pytest.param([packed(0, 1, 0), packed(1, 0, 0)], id="zero"),
    ],
)
def test_an_answer_that_is_not_one_usable_vector_per_text_is_refused(entries: Any) -> None:
    with pytest.raises(BadAnswer):
        vectors_of(entries, count=2, dimensions=2)


@pytest.mark.parametrize("index", [0, 7, None, "0", "none"])
def test_vectors_without_an_index_or_all_with_the_same_are_in_the_order_of_the_texts(index: Any) -> None:
    entries = [{"embedding": [number, 1]} | ({} if index == "none" else {"index": index}) for number in (3, 1, 2)]

    vectors = vectors_of(entries, count=3, dimensions=2)

    assert [vector.tolist() for vector in vectors] == [[3, 1], [1, 1], [2, 1]]
    with pytest.raises(BadAnswer, match="3 vectors for 4 texts"):
        vectors_of(entries, count=4, dimensions=2)


def test_an_index_may_be_a_text() -> None:
    entries = [{"index": "1", "embedding": [1, 1]}, {"index": "0", "embedding": [0, 1]}]

    assert [vector.tolist() for vector in vectors_of(entries, count=2, dimensions=2)] == [[0, 1], [1, 1]]


def test_of_three_vectors_two_for_one_text_are_refused() -> None:
    with pytest.raises(BadAnswer, match="not one for each"):
        vectors_of([entry(0, 1, 0), entry(0, 0, 1), entry(1, 1, 1)], count=3, dimensions=2)


def test_without_known_dimensions_all_vectors_must_still_be_of_one_length() -> None:
    assert len(vectors_of([packed(0, 1, 2, 3)], count=1, dimensions=None)[0]) == 3
    with pytest.raises(BadAnswer):
        vectors_of([packed(0, 1, 2), packed(1, 1)], count=2, dimensions=None)
    with pytest.raises(BadAnswer):
        vectors_of([entry(0)], count=1, dimensions=None)
