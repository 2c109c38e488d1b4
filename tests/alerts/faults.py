"""Faults that are injected into a running system, each with the one alert that it must raise."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Final

import psutil

from kb_shared.mongo.document_texts import text_id
from kb_shared.mongo.keys import DocumentKey
from tests.alerts.observed_system import ObservedSystem
from tests.chaos.workload import Upstream, paragraph
from tests.waiting import until

Injection = Callable[[ObservedSystem], AbstractAsyncContextManager[None]]
"""Begins the fault when entered."""


_STOPPED_S: Final = 5.2
"""Twice this is as long as a request of the load waits."""
_RUNNING_S: Final = 0.5
_CPU_S_OF_A_PART: Final = 0.03


@dataclass(frozen=True, slots=True)
class AlertFault:
    what: str
    alert: str
    inject: Injection
    is_ended_by_commands: bool = True
    """False if something outside of the system goes on until it is ended there."""


def frozen(name: str) -> Injection:
    """Stop a process as a frozen machine does: its connections stay open, and nothing answers."""

    @asynccontextmanager
    async def inject(observed: ObservedSystem) -> AsyncIterator[None]:
        observed.process(name).suspend()
        yield

    return inject


@asynccontextmanager
async def slow_mongod(observed: ObservedSystem) -> AsyncIterator[None]:
    """Let mongod run for moments only, until it is replaced by another process."""
    await observed.wait_for_history()
    slowing = asyncio.create_task(_slow_down(observed.process("mongod")))
    try:
        yield
    finally:
        slowing.cancel()
        await asyncio.gather(slowing, return_exceptions=True)


async def _slow_down(process: psutil.Process) -> None:
    """Stop a process again and again, every other time in the middle of what has waited for it.

    A stop after everything is answered slows down no query: new requests then wait for what precedes their queries.
    The time in which a part is answered differs from machine to machine, the CPU time does not.
    """
    while process.is_running():
        for cpu_s in (_CPU_S_OF_A_PART, None):
            process.suspend()
            await asyncio.sleep(_STOPPED_S)
            process.resume()
            await _wait_for_cpu_time(process, cpu_s=cpu_s, within_s=_RUNNING_S)


async def _wait_for_cpu_time(process: psutil.Process, *, cpu_s: float | None, within_s: float) -> None:
    began, used_s = monotonic(), sum(process.cpu_times()[:2])

    def is_over() -> bool:
        used_enough = cpu_s is not None and sum(process.cpu_times()[:2]) - used_s >= cpu_s
        return used_enough or monotonic() - began >= within_s

    await until(is_over, every_s=0.002)


@asynccontextmanager
async def limited_provider(observed: ObservedSystem) -> AsyncIterator[None]:
    """Build a knowledge base of many documents, a call each, while the provider admits few calls."""
    upstream = Upstream(observed.system.organization_id)
    await observed.system.create_tags("bulk")
    await observed.system.events.publish_all(
        [upstream.ocr(f"bulk-{number}", [paragraph(f"bulk-{number}")], tags=["bulk"]) for number in range(300)]
    )
    # Known before there is a knowledge base for them: so they are a backfill, and wait behind all other documents.
    await until(lambda: observed.knows_documents("bulk", 300), what="300 documents are known", every_s=0.5)
    observed.provider.calls_per_s = 2.5
    kb_id = await observed.system.create_knowledge_base("bulk")
    try:
        with observed.runbooks_are_about(kb_id):
            yield
    finally:
        observed.provider.calls_per_s = None
        (await observed.system.http.delete(f"/knowledge-bases/{kb_id}")).raise_for_status()


@asynccontextmanager
async def events_without_their_texts(observed: ObservedSystem) -> AsyncIterator[None]:
    """Publish events that refer to texts which are stored only later."""
    upstream, texts = Upstream(observed.system.organization_id), {}
    for number in range(150):
        document_id = f"late-{number}"
        event = upstream.ocr(document_id, [paragraph(document_id)], tags=["late"])
        texts[document_id] = event.text or ""
        reference = text_id(DocumentKey(event.organization_id, document_id), texts[document_id], ())
        event = event.model_copy(update={"text": None, "text_ref": reference})
        await observed.system.events.publish(event)
    yield
    for document_id, text in texts.items():
        stored = await observed.system.http.put(
            f"/documents/{document_id}/text",
            content=text.encode(),
            headers={"Content-Type": "text/plain; charset=utf-8"},
        )
        stored.raise_for_status()


@asynccontextmanager
async def lost_documents(observed: ObservedSystem) -> AsyncIterator[None]:
    """Delete most rows of the documents of a knowledge base."""
    await observed.create_knowledge_base("archive", documents=40)
    rows = {"document_id": {"$in": [f"archive-{number}" for number in range(30)]}}
    deleted = await observed.system.database["documents"].delete_many(rows)
    assert deleted.deleted_count == 30
    yield


@asynccontextmanager
async def foreign_writer(observed: ObservedSystem) -> AsyncIterator[None]:
    """Have another program delete rows of the index of documents again and again, too few for the brake."""
    kb_id = await observed.create_knowledge_base("shared", documents=40)
    dice = random.Random(17)

    async def write() -> None:
        while True:
            documents = dice.sample([f"shared-{number}" for number in range(12)], 6)
            rows = {"kb_id": kb_id, "document_id": {"$in": documents}}
            await observed.system.database["document_index"].delete_many(rows)
            await asyncio.sleep(0.2)

    writing = asyncio.create_task(write())
    yield
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)


FAULTS: Final = (
    AlertFault("stopped indexer", "KbServiceDown", frozen("kb-indexer")),
    AlertFault("provider outage", "KbProviderFailing", frozen("model-server")),
    AlertFault("provider with a low limit", "KbProviderRateLimited", limited_provider),
    AlertFault("lost broker", "KbKafkaDown", frozen("broker")),
    AlertFault("burst of dead letters", "KbDeadLetterBurst", events_without_their_texts, is_ended_by_commands=False),
    AlertFault("lost rows of documents", "KbReconcilerStopped", lost_documents),
    AlertFault("drift that goes on", "KbDrift", foreign_writer, is_ended_by_commands=False),
    AlertFault("slow mongod", "KbMongoSlow", slow_mongod),
    AlertFault("frozen mongod", "KbMongoDown", frozen("mongod")),
)
