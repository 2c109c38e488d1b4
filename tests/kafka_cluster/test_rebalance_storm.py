"""Indexers that come and go all the time: none ends by itself, work goes on, and nothing is paid for twice."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

import httpx
import pytest
from aiokafka.admin import AIOKafkaAdminClient

from kb_indexer.bootstrap import GROUP_FAN_OUT, GROUP_SYNC
from kb_local.ports import NO_TLS
from kb_local.python_server import ModelServerProcess, SearchNodeProcess
from kb_local.stack import Stack
from kb_local.zygote import Zygote
from tests.chaos.workload import Upstream, paragraph
from tests.conftest import RunningMongo
from tests.e2e.system import QUICK_ON_KAFKA, SystemUnderTest, system
from tests.kafka_cluster.cluster import KafkaBrokers
from tests.waiting import until

pytestmark = pytest.mark.kafka_cluster

REPLICAS: Final = 20
AT_ONCE: Final = 4
EVERY_S: Final = 5.0
LONGEST_WITHOUT_COMMIT_S: Final = 60.0
ENVIRONMENT: Final = {**QUICK_ON_KAFKA, "KB_JOB_LEASE_S": "30"}


@dataclass
class RebalanceStorm:
    """Replicas that come and go."""

    stack: Stack
    alive: deque[str] = field(default_factory=deque)
    exits: dict[str, int] = field(default_factory=dict)
    starts: dict[str, asyncio.Task[object]] = field(default_factory=dict)
    ends: list[asyncio.Task[None]] = field(default_factory=list)

    async def run(self) -> None:
        for number in range(1, REPLICAS + 1):
            if len(self.alive) == AT_ONCE:
                await asyncio.sleep(EVERY_S)
                self._find_crashed()
                self.ends.append(asyncio.create_task(self._stop(self.alive.popleft())))
            name = f"kb_indexer:{number}"
            self.starts[name] = asyncio.create_task(self.stack.start_service(name))
            self.alive.append(name)
        await asyncio.gather(*self.starts.values(), *self.ends)
        self._find_crashed()

    async def _stop(self, name: str) -> None:
        await self.starts[name]
        self.exits[name] = await self.stack.stop_service(name)

    def _find_crashed(self) -> None:
        services = self.stack.services
        assert not [name for name in self.alive if name in services and services[name].crashed]


@dataclass
class Commits:
    """Times at which the groups of the indexer committed."""

    gaps_s: list[float] = field(default_factory=list)

    @asynccontextmanager
    async def watched(self, stack: Stack) -> AsyncIterator[None]:
        watching = asyncio.create_task(self._watch(stack))
        yield
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self, stack: Stack) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=stack.kafka)
        await admin.start()
        try:
            committed_at, committed = time.monotonic(), 0
            while True:
                offsets = [
                    await admin.list_consumer_group_offsets(stack.topic_prefix + group)
                    for group in (GROUP_FAN_OUT, GROUP_SYNC)
                ]
                total = sum(each.offset for group in offsets for each in group.values())
                if total > committed:
                    self.gaps_s.append(time.monotonic() - committed_at)
                    committed_at, committed = time.monotonic(), total
                await asyncio.sleep(0.5)
        finally:
            await admin.close()


async def publish_until(stop: asyncio.Event, opened: SystemUnderTest) -> list[str]:
    upstream = Upstream(opened.organization_id)
    published: list[str] = []
    while not stop.is_set():
        document_id = f"document-{len(published)}"
        await opened.events.publish(upstream.ocr(document_id, [paragraph(document_id)], tags=["a"]))
        published.append(document_id)
        await asyncio.sleep(0.2)
    return published


async def embedded(model_server: ModelServerProcess) -> int:
    async with httpx.AsyncClient(base_url=model_server.url, trust_env=False, verify=NO_TLS, timeout=60) as http:
        return int((await http.get("/admin/hash")).json()["inputs"])


async def charged_in(opened: SystemUnderTest) -> int:
    return sum([int(row["count"]) async for row in opened.database.spu_ledger.find()])


async def test_replicas_that_come_and_go_every_5_s_end_by_nothing_commit_and_pay_for_each_text_once(
    brokers: KafkaBrokers,
    search_node: RunningMongo | SearchNodeProcess,
    model_server: ModelServerProcess,
    zygote: Zygote,
    tmp_path: Path,
) -> None:
    name = f"storm_{uuid4().hex[:12]}"
    stack = Stack(
        tmp_path,
        services=("kb_api", "kb_indexer"),
        env=ENVIRONMENT,
        mongo_uri=search_node.uri,
        kafka=brokers.bootstrap(),
        models_api_base=model_server.api_base,
        zygote=zygote,
        database=name,
        topic_prefix=f"{name}.",
    )
    storm, commits, stop = RebalanceStorm(stack), Commits(), asyncio.Event()
    async with stack, system(stack) as opened:
        await opened.create_tags("a")
        kb_id = await opened.create_knowledge_base("a")
        await opened.until_active(kb_id)
        await stack.stop_service("kb_indexer")
        embedded_before, charged_before = await embedded(model_server), await charged_in(opened)
        async with commits.watched(stack):
            publishing = asyncio.create_task(publish_until(stop, opened))
            await storm.run()
            stop.set()
            documents = await publishing

            indexed = 0

            async def all_indexed() -> bool:
                nonlocal indexed
                indexed = await opened.database.document_index.count_documents({"kb_id": kb_id})
                return indexed == len(documents)

            what = f"{len(documents)} documents indexed"
            await until(all_indexed, what=what, within_s=120, every_s=0.5, progress=lambda: indexed)
        charged = await charged_in(opened) - charged_before
        texts = await embedded(model_server) - embedded_before
        print(  # noqa: T201  # the figures
            f"{len(documents)} documents, {charged} SPUs, {texts} texts embedded, longest without a commit"
            f" {max(commits.gaps_s):.1f} s"
        )
        assert set(storm.exits.values()) == {0}
        assert charged == texts == len(documents)
        assert max(commits.gaps_s) < LONGEST_WITHOUT_COMMIT_S
        await opened.database.client.drop_database(name)
