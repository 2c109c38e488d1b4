import asyncio
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import ClassVar, Self

import httpx
import numpy as np
import pytest

from kb_local.model_server import minilm, text_model
from kb_local.model_server.app import create_app
from kb_local.model_server.minilm import MiniLM
from kb_local.model_server.model_worker import NICENESS_OF_FURTHER_THREADS, ModelWorker
from kb_local.model_server.openai_api import ClientDisconnected
from kb_local.model_server.pinned_files import PinnedFile
from kb_local.model_server.text_model import Matrix, WordPieces
from kb_local.model_server.use_multilingual import UseMultilingual
from tests.waiting import BRAKE_S

PARAGRAPH = "one more paragraph about cakes " * 6


@pytest.fixture
def worker() -> Iterator[ModelWorker]:
    worker = ModelWorker(MiniLM, threads=2)
    yield worker
    worker.close()


async def stays() -> bool:
    return False


async def test_a_query_waits_for_one_batch_of_a_long_request_and_not_for_all(worker: ModelWorker) -> None:
    at_work = asyncio.Event()

    async def signal_and_stay() -> bool:
        at_work.set()
        return False

    long_request = asyncio.create_task(worker.embed([PARAGRAPH] * 64, is_disconnected=signal_and_stay))
    await asyncio.wait_for(at_work.wait(), timeout=60)

    await worker.embed(["a short query"], is_disconnected=stays)

    assert not long_request.done()
    assert len((await long_request).vectors) == 64


class PairedBatchModel:
    """Embeds a batch only together with another one."""

    name: ClassVar = "in-pairs"
    dimensions: ClassVar = 1
    max_word_pieces: ClassVar = 1
    meeting: ClassVar = threading.Barrier(2)

    @classmethod
    def load(cls) -> Self:
        return cls()

    def tokenize(self, texts: Sequence[str]) -> list[WordPieces]:
        return [[number] for number in range(len(texts))]

    def embed(self, batch: Sequence[WordPieces]) -> Matrix:
        self.meeting.wait(timeout=BRAKE_S)
        return np.array(batch, dtype=np.float32)


@pytest.fixture
def paired_batch_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelWorker]:
    PairedBatchModel.meeting.reset()
    monkeypatch.setattr(text_model, "PIECES_AT_ONCE", 8)
    # As on a machine with two cores.
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    worker = ModelWorker(PairedBatchModel)
    yield worker
    worker.close()


async def test_the_batches_of_one_request_are_embedded_on_all_cores(paired_batch_worker: ModelWorker) -> None:
    embedded = await paired_batch_worker.embed(["a text"] * 32, is_disconnected=stays)
    assert [vector[0] for vector in embedded.vectors] == list(range(32))


async def test_several_requests_are_embedded_on_all_cores(paired_batch_worker: ModelWorker) -> None:
    await asyncio.gather(*(paired_batch_worker.embed(["a text"], is_disconnected=stays) for _ in range(4)))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no niceness of its own")
async def test_all_threads_but_the_first_give_way_to_other_processes(
    monkeypatch: pytest.MonkeyPatch, paired_batch_worker: ModelWorker
) -> None:
    nicer: list[tuple[str, int]] = []
    monkeypatch.setattr(os, "nice", lambda by: nicer.append((threading.current_thread().name, by)))
    await paired_batch_worker.embed(["a text"] * 16, is_disconnected=stays)
    assert nicer == [("in-pairs_1", NICENESS_OF_FURTHER_THREADS)]


async def test_work_for_a_caller_who_left_ends_with_the_batch_in_hand(worker: ModelWorker) -> None:
    looks = 0

    async def leave_after_first_batch() -> bool:
        nonlocal looks
        looks += 1
        return looks > 1

    with pytest.raises(ClientDisconnected):
        await worker.embed([PARAGRAPH] * 32, is_disconnected=leave_after_first_batch)

    assert looks == 2


async def test_without_its_files_the_server_says_what_to_install_and_serves_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing = PinnedFile(package="no_such_package", distribution="a-model==1.0", path="model.onnx", sha256="")
    monkeypatch.setattr(minilm, "MINILM_WEIGHTS", missing)
    app = create_app()

    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://model-server") as client,
    ):
        refused = await client.post("/v1/embeddings", json={"model": MiniLM.name, "input": "a"})
        unready = await client.get("/readyz")
        healthy = await client.get("/healthz")
        others = [
            await client.post("/v1/embeddings", json={"model": model, "input": "a"})
            for model in ("hash-8", UseMultilingual.name)
        ]

    assert refused.status_code == unready.status_code == 503
    assert "pip install" in refused.json()["error"]["message"]
    assert "pip install" in unready.json()["reason"]
    assert [each.status_code for each in (healthy, *others)] == [200, 200, 200]


async def test_a_model_is_not_loaded_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    def load_and_record(cls: type[UseMultilingual]) -> UseMultilingual:
        loaded.append(cls.name)
        return original()

    original = UseMultilingual.load
    monkeypatch.setattr(UseMultilingual, "load", classmethod(load_and_record))
    app = create_app()

    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://model-server") as client,
    ):
        by_default = await client.post("/v1/embeddings", json={"model": MiniLM.name, "input": "a"})
        before = list(loaded)
        asked = [
            await client.post("/v1/embeddings", json={"model": UseMultilingual.name, "input": "a"}) for _ in range(2)
        ]

    assert [answer.status_code for answer in (by_default, *asked)] == [200, 200, 200]
    assert (before, loaded) == ([], [UseMultilingual.name])
