"""`python -m benchmarks.service_resources`: CPU and memory of each service, at rest and under load.

Each service runs in a Python of its own, as in a container; in the local stack they share memory with each other.
Under load, `--docs` documents are indexed as fast as possible, while `--clients` clients search without a pause. Then
the runner of sources reads a web site of 200 pages and a PDF, with the processes that parse them. At last, people
read all pages of the console, `--pages-per-s` of them.
Memory is the greatest resident set of the process since its start (VmHWM), CPU is in cores: 0.5 is half of one.
docs/how-to/deploy-on-kubernetes.md derives the resources of the containers from these figures.
"""

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, Final

import httpx
import psutil

from benchmarks import command
from benchmarks.console_reading import PageReaders
from benchmarks.indexing import corpus
from benchmarks.indexing.system import until
from benchmarks.source_reading import read_sources, watched_children
from kb_client.events import EventPublisher
from kb_contracts.documents import OcrCompleted
from kb_local.ports import LOOPBACK
from kb_local.python_server import PythonServer, answers_ok
from kb_local.stack import Stack
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel

SERVICES: Final = {
    "kb-api": "kb_api",
    "kb-indexer": "kb_indexer",
    "kb-search": "kb_search",
    "kb-reconciler": "kb_reconciler",
    "kb-knowledge": "kb_knowledge",
    "kb-knowledge-runner": "kb_knowledge.runner",
    "kb-console": "kb_console",
}
TAG: Final = "measured"
OF_SITE: Final = {"KB_ALLOW_PRIVATE_ADDRESSES": "true", "KB_CRAWL_DELAY_S": "0"}
"""The web site is on this machine, and is read as fast as possible."""


class ServiceProcess(PythonServer):
    """A service in a Python of its own."""

    def _arguments(self) -> Sequence[str]:
        return ()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    async def is_ready(self) -> bool:
        return await answers_ok(f"{self.url}/readyz")


def main() -> None:
    parser = command.parser("service_resources", __doc__)
    parser.add_argument("--docs", type=int, default=200)
    parser.add_argument("--words", type=int, default=3_000, help="of a document")
    parser.add_argument("--dims", type=int, default=1_536, help="of the vectors")
    parser.add_argument("--clients", type=int, default=4, help="searches that run at the same time")
    parser.add_argument("--idle-s", type=float, default=60)
    parser.add_argument("--pages-per-s", type=float, default=5, help="that people read in the console")
    parser.add_argument("--reading-s", type=float, default=60, help="time in which they do")
    command.run(parser, _measure)


async def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    async with (
        Stack(folder, services=()) as stack,
        _running_services(stack) as services,
        _client(stack) as http,
        EventPublisher(stack.kafka_connection, source="/benchmark", idempotence=False) as events,
    ):
        idle = await _usage_during(services.values(), asyncio.sleep(options.idle_s))
        kb_id = await _create_knowledge_base(http, dims=options.dims)
        async with _searches(http, kb_id, clients=options.clients) as answered:
            loaded = await _usage_during(services.values(), _index(http, events, kb_id, stack.organization_id, options))
        async with watched_children(services["kb-knowledge-runner"].pid) as parsers:
            sources = await _usage_during(services.values(), read_sources(http))
        sources["parsers"] = {
            "cores": round(parsers.cpu_s / sources["seconds"], 3),
            "memory_mib": parsers.memory_mib,
        }
        readers = PageReaders(stack, kb_id, pages_per_s=options.pages_per_s)
        reading = await _usage_during(services.values(), readers.read(seconds=options.reading_s))
        return {
            "idle": idle,
            "loaded": loaded,
            "searches": answered(),
            "sources": sources,
            "reading": {**reading, "pages": dict(readers.answered)},
        }


@asynccontextmanager
async def _running_services(stack: Stack) -> AsyncIterator[dict[str, ServiceProcess]]:
    services = {}
    for name, package in SERVICES.items():
        port = stack.ports.reserve(name)
        own = {"KB_HTTP_HOST": LOOPBACK, "KB_HTTP_PORT": str(port), "KB_BASE_URL": stack.base_url}
        env = stack.environment | OF_SITE | own
        services[name] = ServiceProcess(name, package, port=port, log=stack.home.log(name), env=env)
    try:
        await run_all_or_cancel(service.start() for service in services.values())
        yield services
    finally:
        await run_all_or_cancel(service.stop() for service in services.values())


def _client(stack: Stack) -> httpx.AsyncClient:
    """Create a client of the gateway, which finds the services at the ports that are reserved for them."""
    return httpx.AsyncClient(
        base_url=f"{stack.base_url}/v0/orgs/{stack.organization_id}",
        headers={"Authorization": f"Bearer {stack.api_key}"},
        timeout=60,
    )


async def _usage_during(services: Iterable[ServiceProcess], work: Awaitable[None]) -> dict[str, Any]:
    processes = {service.name: psutil.Process(service.pid) for service in services}
    before, began = {name: _cpu_s(process) for name, process in processes.items()}, monotonic()
    await work
    seconds = monotonic() - began
    return {
        "seconds": round(seconds, 1),
        **{
            name: {
                "cores": round((_cpu_s(process) - before[name]) / seconds, 3),
                "memory_mib": _greatest_resident_mib(process.pid),
            }
            for name, process in processes.items()
        },
    }


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _greatest_resident_mib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) // 1024


async def _create_knowledge_base(http: httpx.AsyncClient, *, dims: int) -> str:
    (await http.post("/tags", json={"tag_id": TAG, "name": TAG})).raise_for_status()
    body = {"name": TAG, "tag_ids": [TAG], "embedding_model": f"hash-{dims}", "chunk_size": 200, "chunk_overlap": 0}
    kb_id = str((await http.post("/knowledge-bases", json=body)).raise_for_status().json()["kb_id"])

    async def is_active() -> bool:
        kb = (await http.get(f"/knowledge-bases/{kb_id}")).raise_for_status().json()
        return kb["status"] in ("active", "indexing")

    await until(is_active)
    return kb_id


async def _index(
    http: httpx.AsyncClient, events: EventPublisher, kb_id: str, organization_id: str, options: argparse.Namespace
) -> None:
    """Publish the documents, and return when the knowledge base has all of them."""
    texts = corpus.texts(documents=options.docs, words=options.words)
    await events.publish_all(
        [
            OcrCompleted(
                organization_id=organization_id,
                document_id=f"document-{number}",
                revision=1,
                document_name=f"Document {number}",
                tag_ids=[TAG],
                upload_date=datetime(2026, 1, 1, tzinfo=UTC),
                text=text,
            )
            for number, text in enumerate(texts)
        ]
    )

    async def has_all() -> bool:
        await asyncio.sleep(0.5)
        kb = (await http.get(f"/knowledge-bases/{kb_id}")).raise_for_status().json()
        return bool(kb["document_count"] >= options.docs)

    await until(has_all)


@asynccontextmanager
async def _searches(http: httpx.AsyncClient, kb_id: str, *, clients: int) -> AsyncIterator[Callable[[], int]]:
    """Search all the time; yields a function that returns the number of answers so far."""
    numbers = count()
    answered = 0

    async def keep_searching() -> None:
        nonlocal answered
        while True:
            body = {"query": f"question number {next(numbers)}", "top_k": 10}
            response = await http.post(f"/knowledge-bases/{kb_id}/search", json=body)
            answered += response.is_success

    searching = [asyncio.create_task(keep_searching()) for _ in range(clients)]
    try:
        yield lambda: answered
    finally:
        for task in searching:
            task.cancel()
        for task in searching:
            with contextlib.suppress(asyncio.CancelledError):
                await task


if __name__ == "__main__":
    main()
