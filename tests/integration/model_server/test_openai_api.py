from typing import Any

import httpx
import pytest

from kb_shared.embedding.models import LOCAL_MODELS


async def test_models_are_listed(http: httpx.AsyncClient) -> None:
    listed = (await http.get("/v1/models")).json()

    assert listed["object"] == "list"
    assert {"all-MiniLM-L6-v2", "use-multilingual-v3", "hash-64"} <= {model["id"] for model in listed["data"]}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"model": "hash-64"}, "input"),
        ({"model": "hash-64", "input": ""}, "input"),
        ({"model": "hash-64", "input": []}, "input"),
        ({"model": "hash-64", "input": ["a", ""]}, "input"),
        ({"model": "hash-64", "input": ["a", 1]}, "input"),
        ({"model": "hash-64", "input": [1, 2]}, "input"),
        ({"model": "hash-64", "input": None}, "input"),
        ({"model": "hash-64", "input": ["a"] * 2049}, "input"),
        ({"input": "a"}, "model"),
        ({"model": "hash-64", "input": "a", "encoding_format": "hex"}, "encoding_format"),
        ({"model": "hash-64", "input": "a", "dimensions": 0}, "dimensions"),
        ({"model": "hash-64", "input": "a", "dimensions": "64"}, "dimensions"),
        ({"model": "hash-64", "input": "a", "dimensions": 65}, "dimensions"),
        ([], None),
    ],
)
async def test_a_wrong_request_is_refused_and_the_field_named(http: httpx.AsyncClient, body: Any, param: str) -> None:
    refused = await http.post("/v1/embeddings", json=body)

    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("body", [b"", b"{", b'{"model": "hash-64", "input": "\\ud800"}', b"\xff"])
async def test_a_body_that_is_not_json_is_refused(http: httpx.AsyncClient, body: bytes) -> None:
    refused = await http.post("/v1/embeddings", content=body)

    assert refused.status_code == 400
    assert refused.json()["error"]["message"]


async def test_a_refusal_never_repeats_the_texts(http: httpx.AsyncClient) -> None:
    for wrong in (["a secret", 1], {"a secret": "a secret"}):
        refused = await http.post("/v1/embeddings", json={"model": "hash-64", "input": wrong})
        assert "secret" not in refused.text


@pytest.mark.parametrize("model", ["gpt-7", "hash-", "hash-0", "hash-8193", "hash-064", "hash-64 ", "HASH-64"])
async def test_an_unknown_model_is_not_found_and_those_there_are_are_named(http: httpx.AsyncClient, model: str) -> None:
    refused = await http.post("/v1/embeddings", json={"model": model, "input": "a"})

    assert refused.status_code == 404
    error = refused.json()["error"]
    assert error["code"] == "model_not_found"
    assert all(known in error["message"] for known in (*LOCAL_MODELS, "hash-<dimensions>"))


async def test_unknown_paths_and_methods_answer_as_openai_errors(http: httpx.AsyncClient) -> None:
    for answer, status in ((await http.get("/v1/nothing"), 404), (await http.get("/v1/embeddings"), 405)):
        assert answer.status_code == status
        assert answer.json()["error"]["message"]


async def test_2048_texts_are_answered(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/embeddings", json={"model": "hash-4", "input": ["a"] * 2048})

    assert len(answer.json()["data"]) == 2048
