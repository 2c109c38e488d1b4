import base64
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
import pytest

MODEL = "all-MiniLM-L6-v2"

RESTORE = "How do I restore a database backup?"
RECOVER = "Steps to recover data from a saved snapshot of the database."
CAKE = "Bake the chocolate cake for forty minutes."

Matrix = npt.NDArray[np.float32]


async def embed(http: httpx.AsyncClient, texts: str | list[str], **more: Any) -> dict[str, Any]:
    answer = await http.post("/v1/embeddings", json={"model": MODEL, "input": texts, **more})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def vectors(http: httpx.AsyncClient, texts: str | list[str]) -> Matrix:
    data = (await embed(http, texts))["data"]
    assert [entry["index"] for entry in data] == list(range(len(data)))
    return np.array([entry["embedding"] for entry in data], dtype=np.float32)


async def test_related_texts_are_nearer_than_unrelated_ones(http: httpx.AsyncClient) -> None:
    question, answer, cake = await vectors(http, [RESTORE, RECOVER, CAKE])

    # .632, .036 and .049 when this was written.
    assert question @ answer > 0.5
    assert question @ cake < 0.15
    assert answer @ cake < 0.15


async def test_a_vector_has_384_dimensions_and_length_one(http: httpx.AsyncClient) -> None:
    (vector,) = await vectors(http, CAKE)

    assert vector.shape == (384,)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


async def test_a_vector_does_not_depend_on_the_batch_it_was_made_in(http: httpx.AsyncClient) -> None:
    texts = [CAKE * copies for copies in (9, 1, 7, 2, 30, 3, 5, 4, 12, 1, 6, 8)]

    together = await vectors(http, texts)
    alone = np.concatenate([await vectors(http, text) for text in texts])

    assert np.abs(together - alone).max() < 1e-5


async def test_answers_stand_in_the_order_asked_for_whatever_the_lengths(http: httpx.AsyncClient) -> None:
    texts = [f"number {number} " * (1 + number * 7 % 20) for number in range(20)]

    forward = await vectors(http, texts)
    backward = await vectors(http, texts[::-1])

    assert np.abs(forward - backward[::-1]).max() < 1e-5
    assert np.abs(forward - backward).max() > 1e-2


async def test_text_is_read_up_to_256_word_pieces(http: httpx.AsyncClient) -> None:
    # One piece a word, and two special ones around each text.
    ending_at_the_limit = "cake " * 253 + "bread"
    beyond_it = ending_at_the_limit + " python" * 50
    shorter = "cake " * 253

    read_whole, cut, without_last = await vectors(http, [ending_at_the_limit, beyond_it, shorter])
    usage = (await embed(http, beyond_it))["usage"]

    assert np.abs(read_whole - cut).max() < 1e-5
    assert np.abs(read_whole - without_last).max() > 1e-3
    assert usage == {"prompt_tokens": 256, "total_tokens": 256}


async def test_usage_counts_the_word_pieces_read_without_padding(http: httpx.AsyncClient) -> None:
    body = await embed(http, ["cake", "the red cake"])

    assert body["usage"] == {"prompt_tokens": 3 + 5, "total_tokens": 3 + 5}
    assert body["model"] == MODEL
    assert body["object"] == "list"


async def test_base64_holds_the_same_floats(http: httpx.AsyncClient) -> None:
    (floats,) = await vectors(http, CAKE)
    (entry,) = (await embed(http, CAKE, encoding_format="base64", dimensions=384))["data"]

    assert np.array_equal(np.frombuffer(base64.b64decode(entry["embedding"]), dtype="<f4"), floats)


async def test_other_dimensions_are_refused(http: httpx.AsyncClient) -> None:
    refused = await http.post("/v1/embeddings", json={"model": MODEL, "input": CAKE, "dimensions": 256})

    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "dimensions"


async def test_any_unicode_text_can_be_embedded(http: httpx.AsyncClient) -> None:
    texts = ["蛋糕食谱", "👩‍👩‍👧‍👦", "\u0000\u2028", "   ", "<|endoftext|>", "ก" * 500, "z̷̡͝a̵l̸g̶o̴"]

    assert np.isfinite(await vectors(http, texts)).all()
