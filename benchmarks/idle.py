"""`python -m benchmarks.idle`: the CPU that the local stack uses while nothing happens.

It starts the stack as `kb up` does, waits until the CPU of all processes no longer falls, and counts the CPU seconds
of each process for a while. With `--kbs`, documents are indexed first. The figures are percentages of one core.
"""

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Final

from benchmarks import command
from benchmarks.indexing import corpus
from benchmarks.indexing.resource_usage import cpu_s_of
from benchmarks.indexing.system import until
from kb_client.events import EventPublisher
from kb_contracts.documents import OcrCompleted
from kb_local import daemon
from kb_local.demo.api import Api
from kb_local.state import Home, StackState
from kb_shared.kafka_connection.connection import KafkaConnection

_WINDOW_S: Final = 5.0
_STILL_FALLING: Final = 0.9
"""A window with less than this share of the CPU of the lowest one so far begins the wait again."""
_CALM_WINDOWS: Final = 4
_LONGEST_WAIT_S: Final = 180.0


def main() -> None:
    parser = command.parser("idle", __doc__)
    parser.add_argument("--seconds", type=float, default=60, help="that are measured")
    parser.add_argument("--kbs", type=int, default=0, help="knowledge bases with documents; 0 measures an empty stack")
    parser.add_argument("--docs", type=int, default=50, help="documents of each knowledge base")
    parser.add_argument("--words", type=int, default=330, help="a document; 68 make a chunk of 200 tokens")
    command.run(parser, _measure)


async def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    async with _running_stack(folder) as state:
        if options.kbs:
            await _fill(Home(folder), state, options)
        waited_s = await _until_calm(state)
        before, began = _cpu_s(state), monotonic()
        await asyncio.sleep(options.seconds)
        after, measured_s = _cpu_s(state), monotonic() - began
    percent = {name: 100 * (after[name] - before[name]) / measured_s for name in before}
    return {
        "percent_of_a_core": round(sum(percent.values()), 2),
        "by_process": {name: round(share, 2) for name, share in sorted(percent.items(), key=lambda each: -each[1])},
        "measured_s": round(measured_s, 1),
        "waited_s": round(waited_s, 1),
    }


@asynccontextmanager
async def _running_stack(folder: Path) -> AsyncIterator[StackState]:
    environment = {**os.environ, "KB_HOME": str(folder), "KB_EMBEDDING_MODEL": "hash-384"}
    await asyncio.to_thread(daemon.start, environment, on_change=lambda _: None)
    try:
        yield daemon.current_state(environment)
    finally:
        await asyncio.to_thread(daemon.stop, environment)


async def _fill(home: Home, state: StackState, options: argparse.Namespace) -> None:
    """Index documents in several knowledge bases, and return when all are searchable."""
    secrets = home.read_secrets()
    assert state.base_url is not None
    broker = KafkaConnection.from_environment({"KB_KAFKA": f"127.0.0.1:{state.ports['broker']}"})
    tags = [f"idle-{number}" for number in range(options.kbs)]
    async with (
        Api(state.base_url, secrets.organization_id, api_key=secrets.api_key, logs=home.logs) as api,
        EventPublisher(broker, source="/benchmark", idempotence=False) as events,
    ):
        await api.create_tags(tags)
        kb_ids = [await api.create_knowledge_base(f"Benchmark {tag}", "", tag_ids=[tag]) for tag in tags]
        for kb_id in kb_ids:
            await api.wait_until_active(kb_id)
        texts = enumerate(corpus.texts(documents=options.docs * options.kbs, words=options.words))
        await events.publish_all(
            [
                OcrCompleted(
                    organization_id=secrets.organization_id,
                    document_id=f"doc-{number}",
                    revision=1,
                    document_name=f"Document {number}",
                    tag_ids=[tags[number % options.kbs]],
                    upload_date=datetime(2026, 1, 1, tzinfo=UTC),
                    text=text,
                )
                for number, text in texts
            ]
        )

        async def all_indexed() -> bool:
            views = [await api.knowledge_base(kb_id) for kb_id in kb_ids]
            return all(view["document_count"] == options.docs for view in views)

        await until(all_indexed)


async def _until_calm(state: StackState) -> float:
    """Wait until the CPU of all processes has not fallen for some time; return the seconds that this took."""
    began, calm, lowest = monotonic(), 0, float("inf")
    before = sum(_cpu_s(state).values())
    while calm < _CALM_WINDOWS and monotonic() - began < _LONGEST_WAIT_S:
        await asyncio.sleep(_WINDOW_S)
        now = sum(_cpu_s(state).values())
        calm = 0 if now - before < _STILL_FALLING * lowest else calm + 1
        lowest, before = min(lowest, now - before), now
    return monotonic() - began


def _cpu_s(state: StackState) -> Mapping[str, float]:
    pids = {"supervisor": state.supervisor_pid} | {process.name: process.pid for process in state.processes}
    return cpu_s_of({name: pid for name, pid in pids.items() if pid is not None})


if __name__ == "__main__":
    main()
