import asyncio
import base64
import hashlib
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
import pytest

from kb_local.model_server.hash_model import vector_of
from tests.waiting import until

TEXTS = ["first text", "second", "the third text"]


async def ask(http: httpx.AsyncClient, texts: list[str] = TEXTS, *, model: str = "hash-16") -> httpx.Response:
    body = {"model": model, "input": texts, "encoding_format": "base64"}
    return await http.post("/v1/embeddings", json=body)


async def program(http: httpx.AsyncClient, *faults: dict[str, Any], **more: Any) -> None:
    put = await http.put("/admin/hash", json={"faults": faults, **more})
    assert put.status_code == 200, put.text


def decoded(answer: httpx.Response) -> list[tuple[int, npt.NDArray[np.float32]]]:
    assert answer.status_code == 200, answer.text
    return [
        (entry["index"], np.frombuffer(base64.b64decode(entry["embedding"]), dtype="<f4"))
        for entry in answer.json()["data"]
    ]


def is_right(answer: httpx.Response, texts: list[str] = TEXTS) -> bool:
    expected = [vector_of(text, dimensions=16) for text in texts]
    by_index = sorted(decoded(answer), key=lambda entry: entry[0])
    return len(by_index) == len(texts) and all(
        index == position and np.array_equal(vector, expected[position])
        for position, (index, vector) in enumerate(by_index)
    )


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def test_each_text_gets_the_vector_of_its_hash(http: httpx.AsyncClient) -> None:
    answer = await ask(http)

    assert [index for index, _ in decoded(answer)] == [0, 1, 2]
    assert is_right(answer)
    assert answer.json()["usage"] == {"prompt_tokens": 6, "total_tokens": 6}


async def test_float_and_base64_answers_hold_the_same_numbers(http: httpx.AsyncClient) -> None:
    body = {"model": "hash-16", "input": TEXTS}
    as_floats = (await http.post("/v1/embeddings", json=body)).json()["data"]

    for entry, (_, vector) in zip(as_floats, decoded(await ask(http)), strict=True):
        assert np.array_equal(np.array(entry["embedding"], dtype=np.float32), vector)


async def test_fewer_dimensions_can_be_asked_for(http: httpx.AsyncClient) -> None:
    body = {"model": "hash-64", "input": "a", "dimensions": 16}
    (entry,) = (await http.post("/v1/embeddings", json=body)).json()["data"]

    assert np.array_equal(np.array(entry["embedding"], dtype=np.float32), vector_of("a", dimensions=16))


@pytest.mark.parametrize("status", [401, 413, 429, 500, 503])
async def test_a_status_is_answered_as_often_as_asked_for(http: httpx.AsyncClient, status: int) -> None:
    await program(http, {"status": status, "times": 2})

    answers = [await ask(http) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [status, status, 200]
    assert set(answers[0].json()["error"]) == {"message", "type", "param", "code"}
    assert "retry-after" not in answers[0].headers


async def test_too_many_requests_can_say_when_to_return(http: httpx.AsyncClient) -> None:
    await program(http, {"status": 429, "retry_after_s": 1.5})

    answer = await ask(http)

    assert answer.headers["retry-after"] == "1.5"
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"


async def test_a_short_answer_lacks_one_vector(http: httpx.AsyncClient) -> None:
    await program(http, {"kind": "short"})

    assert len(decoded(await ask(http))) == len(TEXTS) - 1


async def test_one_vector_of_a_wrong_dimension_is_among_right_ones(http: httpx.AsyncClient) -> None:
    await program(http, {"kind": "wrong_dimension"})

    assert [len(vector) for _, vector in decoded(await ask(http))] == [16, 16, 15]


async def test_one_component_that_is_no_number_is_among_right_ones(http: httpx.AsyncClient) -> None:
    await program(http, {"kind": "nan"})

    assert [int(np.isnan(vector).sum()) for _, vector in decoded(await ask(http))] == [0, 0, 1]


async def test_a_shuffled_answer_is_right_by_its_indexes(http: httpx.AsyncClient) -> None:
    await program(http, {"kind": "shuffled"})

    answer = await ask(http)

    assert [index for index, _ in decoded(answer)] == [2, 1, 0]
    assert is_right(answer)


async def test_an_answer_can_be_something_else_than_json(http: httpx.AsyncClient) -> None:
    await program(http, {"kind": "not_json"})

    answer = await ask(http)

    assert answer.status_code == 200
    with pytest.raises(ValueError, match="Expecting value"):
        answer.json()


async def test_a_text_can_be_too_long_for_the_model(http: httpx.AsyncClient) -> None:
    await program(http, {"kind": "context_length", "min_text_chars": 12})

    too_long = await ask(http)

    assert too_long.status_code == 400
    assert too_long.json()["error"]["code"] == "context_length_exceeded"
    assert is_right(await ask(http, TEXTS[:2]), TEXTS[:2])


async def test_a_call_can_hang_and_leave_the_others_alone(http: httpx.AsyncClient) -> None:
    await program(http, {"kind": "hang", "hang_s": 60, "times": 1})

    with pytest.raises(httpx.ReadTimeout):
        await http.post("/v1/embeddings", json={"model": "hash-16", "input": TEXTS}, timeout=0.2)

    async def has_arrived() -> bool:
        return bool((await http.get("/admin/hash")).json()["calls"])

    await until(has_arrived)
    assert is_right(await ask(http))


async def test_a_call_that_hung_is_answered_as_it_should_have_been(http: httpx.AsyncClient) -> None:
    await program(http, {"kind": "hang", "hang_s": 0.05, "times": 1})

    assert is_right(await ask(http))


async def test_a_call_that_hangs_is_answered_when_another_program_is_put(http: httpx.AsyncClient) -> None:
    await program(http, {"kind": "hang", "hang_s": 600})
    asking = asyncio.create_task(ask(http))

    async def has_arrived() -> bool:
        return bool((await http.get("/admin/hash")).json()["calls"])

    await until(has_arrived)
    await program(http)

    assert is_right(await asking)


async def test_every_answer_can_be_delayed_without_delaying_each_other(http: httpx.AsyncClient) -> None:
    # Longer than the test waits: whatever has arrived is still being delayed.
    await program(http, delay_ms=600_000)
    asking = [asyncio.create_task(ask(http)) for _ in range(20)]

    async def all_are_delayed() -> bool:
        report = (await http.get("/admin/hash")).json()
        return bool(report["calls"] == 20 and report["answered_calls"] == 0)

    await until(all_are_delayed)
    for each in asking:
        each.cancel()
    await asyncio.gather(*asking, return_exceptions=True)


async def test_an_answer_is_delayed_for_the_requested_time(http: httpx.AsyncClient) -> None:
    await program(http, delay_ms=50)
    clock = asyncio.get_running_loop().time
    asked_at = clock()

    await ask(http)

    assert clock() - asked_at >= 0.05


async def test_faults_choose_their_calls_and_the_first_that_fits_hits(http: httpx.AsyncClient) -> None:
    await program(
        http, {"status": 413, "min_inputs": 3}, {"status": 401, "model": "hash-8"}, {"status": 500, "times": 1}
    )

    assert (await ask(http, TEXTS)).status_code == 413
    assert (await ask(http, TEXTS[:1], model="hash-8")).status_code == 401
    assert (await ask(http, TEXTS[:1])).status_code == 500
    assert (await ask(http, TEXTS[:1])).status_code == 200
    hits = [fault["hits"] for fault in (await http.get("/admin/hash")).json()["faults"]]
    assert hits == [1, 1, 1]


async def test_chance_repeats_itself_with_the_same_seed(http: httpx.AsyncClient) -> None:
    async def statuses(seed: int) -> list[int]:
        await program(http, {"status": 500, "probability": 0.5}, seed=seed)
        return [(await ask(http)).status_code for _ in range(16)]

    first = await statuses(seed=7)

    assert set(first) == {200, 500}
    assert await statuses(seed=7) == first
    assert await statuses(seed=8) != first


@pytest.mark.parametrize(
    "fault",
    [{}, {"status": 429, "kind": "nan"}, {"kind": "unheard_of"}, {"status": 200}, {"status": 500, "time": 1}],
)
async def test_a_program_that_means_nothing_is_refused(http: httpx.AsyncClient, fault: dict[str, Any]) -> None:
    await program(http, {"status": 503})

    refused = await http.put("/admin/hash", json={"faults": [fault]})

    assert refused.status_code == 400
    assert (await ask(http)).status_code == 503


async def test_calls_are_counted_apart_from_answers(http: httpx.AsyncClient) -> None:
    await program(http, {"status": 429, "times": 1}, {"kind": "short", "times": 1})

    for _ in range(3):
        await ask(http)

    report = (await http.get("/admin/hash")).json()
    assert report["calls"] == 3
    assert report["inputs"] == 9
    assert report["answered_calls"] == 1
    assert report["answered_inputs"] == 3
    assert report["prompt_tokens"] == 6


async def test_texts_served_are_recorded_by_hash_and_only_when_served_rightly(http: httpx.AsyncClient) -> None:
    await program(
        http,
        *({"kind": kind, "times": 1} for kind in ("short", "wrong_dimension", "nan", "not_json", "context_length")),
        {"status": 500, "times": 1},
        {"kind": "shuffled", "times": 1},
    )
    for _ in range(7):
        await ask(http, ["a", "b"])
    await ask(http, ["b", "b"])
    await ask(http, ["a"], model="hash-8")

    assert (await http.get("/admin/hash/served")).json() == {sha256("a"): 2, sha256("b"): 3}
    by_model = await http.get("/admin/hash/served", params={"model": "hash-16"})
    assert by_model.json() == {sha256("a"): 1, sha256("b"): 3}


async def test_an_answer_whose_client_left_is_not_recorded_as_served(http: httpx.AsyncClient) -> None:
    await program(http, {"kind": "hang", "hang_s": 3.5})
    with pytest.raises(httpx.ReadTimeout):
        await http.post("/v1/embeddings", json={"model": "hash-16", "input": ["lost"]}, timeout=0.1)

    # Asked later and hanging as long: its answer comes after the other one's would have.
    assert is_right(await ask(http, ["kept"]), ["kept"])

    assert (await http.get("/admin/hash/served")).json() == {sha256("kept"): 1}


async def test_a_reset_forgets_program_and_counts(http: httpx.AsyncClient) -> None:
    await program(http, {"status": 500}, delay_ms=5)
    await ask(http)

    assert (await http.delete("/admin/hash")).status_code == 204

    report = (await http.get("/admin/hash")).json()
    assert report["faults"] == []
    assert report["delay_ms"] == 0
    assert report["calls"] == 0
    assert (await http.get("/admin/hash/served")).json() == {}
    assert is_right(await ask(http))
