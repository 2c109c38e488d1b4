import asyncio
from collections.abc import Iterator

import httpx
import pytest

from kb_local.model_server import minilm
from kb_local.model_server.app import create_app
from kb_local.model_server.minilm import BATCH_SIZE
from kb_local.model_server.minilm_worker import MiniLMWorker
from kb_local.model_server.openai_api import CallerLeft
from kb_local.model_server.pinned_files import PinnedFile

PARAGRAPH = "one more paragraph about cakes " * 6


@pytest.fixture
def worker() -> Iterator[MiniLMWorker]:
    worker = MiniLMWorker()
    yield worker
    worker.close()


async def stays() -> bool:
    return False


async def test_a_query_waits_for_one_batch_of_a_long_request_and_not_for_all(worker: MiniLMWorker) -> None:
    at_work = asyncio.Event()

    async def stays_and_tells() -> bool:
        at_work.set()
        return False

    long_request = asyncio.create_task(worker.embed([PARAGRAPH] * BATCH_SIZE * 8, caller_left=stays_and_tells))
    await asyncio.wait_for(at_work.wait(), timeout=60)

    await worker.embed(["a short query"], caller_left=stays)

    assert not long_request.done()
    assert len((await long_request).vectors) == BATCH_SIZE * 8


async def test_work_for_a_caller_who_left_ends_with_the_batch_in_hand(worker: MiniLMWorker) -> None:
    looks = 0

    async def leaves_after_the_first_batch() -> bool:
        nonlocal looks
        looks += 1
        return looks > 1

    with pytest.raises(CallerLeft):
        await worker.embed([PARAGRAPH] * BATCH_SIZE * 4, caller_left=leaves_after_the_first_batch)

    assert looks == 2


async def test_without_its_files_the_server_says_what_to_install_and_serves_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing = PinnedFile(package="no_such_package", distribution="a-model==1.0", path="model.onnx", sha256="")
    monkeypatch.setattr(minilm, "WEIGHTS", missing)
    app = create_app(with_minilm=True)

    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://model-server") as client,
    ):
        refused = await client.post("/v1/embeddings", json={"model": minilm.NAME, "input": "a"})
        unready = await client.get("/readyz")
        healthy = await client.get("/healthz")
        hashed = await client.post("/v1/embeddings", json={"model": "hash-8", "input": "a"})

    assert refused.status_code == unready.status_code == 503
    assert "pip install" in refused.json()["error"]["message"]
    assert "pip install" in unready.json()["reason"]
    assert healthy.status_code == hashed.status_code == 200
