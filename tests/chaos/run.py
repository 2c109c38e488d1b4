"""One run of chaos: a system, what a plan does to it, and what is wrong when all is over."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic
from uuid import uuid4

import httpx

from kb_contracts.documents import DocumentEvent
from kb_local.cpu_share import limit_cpu
from kb_local.server import Server
from kb_local.stack import Stack, run_all
from kb_local.zygote import Zygote
from tests.chaos.caller import Caller
from tests.chaos.clock import Clock
from tests.chaos.cluster_faults import ClusterFaults, Clusters
from tests.chaos.experience import Experience
from tests.chaos.faults import Faults, indexer_names
from tests.chaos.oracle import Oracle
from tests.chaos.outages import Outages, outages_of
from tests.chaos.plan import (
    READ,
    WATCHED,
    WATCHED_TAG,
    Change,
    Create,
    Deliver,
    Drop,
    Plan,
    Reread,
    RestartBroker,
    Retag,
    Throw,
    plan_of,
)
from tests.chaos.quiescence import SLOW_S, until_quiescent
from tests.chaos.reading import Reading
from tests.chaos.revisions import Revisions
from tests.chaos.swap_runs import run_too_often
from tests.chaos.time_passing import let_circuits_close, let_leases_expire
from tests.chaos.workload import Upstream
from tests.e2e.system import QUICK, QUICK_ON_KAFKA, System, system, until

BETWEEN_READS_S = 0.05
_PRODUCERS = ("kb_api", "kb_indexer", "kb_reconciler")


@dataclass(frozen=True, slots=True)
class ChaosServers:
    """What runs share, one after the other; each has its own database, broker, search node and services."""

    mongo_uri: str
    models_api_base: str
    zygote: Zygote
    clusters: Clusters = field(default_factory=Clusters)
    """With brokers each run has topics of its own on them instead of a broker of its own."""
    mongods: Sequence[Server] = ()
    cpu_share: float | None = None
    """Of a CPU, which each indexer and each mongod is limit_cpu to; None: all that the machine has."""


@dataclass(frozen=True, slots=True)
class Verdict:
    problems: Sequence[str]
    reads: int
    refused_reads: int
    """With a 503, while the provider did not answer."""
    stuck: bool
    """It never came to rest, so that the oracle was not asked."""
    took_s: float
    """All in all: starting, living, healing and looking."""
    answers: Mapping[str, int] = field(default_factory=dict)
    """What callers saw, and how often: `search 503`."""
    gaps_s: Mapping[str, float] = field(default_factory=dict)
    """The longest time, of each thing that they did, without success."""


async def run(
    servers: ChaosServers, folder: Path, seed: int, *, seconds: float, replicas: int, reconciler: bool
) -> Verdict:
    """Live through what the seed stands for; a problem is whatever must not be so afterwards, or was so meanwhile."""
    began = monotonic()
    upstream = Upstream("local")
    plan = plan_of(seed, seconds=seconds, replicas=replicas, upstream=upstream)
    clusters = servers.clusters
    if clusters.brokers is not None:
        plan = on_kafka(plan)
    outages = outages_of(seed, seconds=seconds, brokers=clusters.number_of_brokers, members=clusters.number_of_members)
    await clusters.heal()
    async with _system(servers, folder, plan, reconciler=reconciler) as opened, _slow(servers, opened.stack):
        chaos = _Chaos(opened, plan, upstream, clusters, outages, cpu_share=servers.cpu_share)
        problems = await chaos.live()
        reads = sum(each.reads for each in chaos.readings)
        seen = chaos.experience.summary()
        took_s = monotonic() - began
        return Verdict(problems, reads, chaos.refused, chaos.stuck, took_s, seen.answers, seen.gaps_s)


def on_kafka(plan: Plan) -> Plan:
    """Return the plan without what only a broker without memory needs: nothing that was acknowledged gets lost."""
    faults = [fault for fault in plan.process_faults if not isinstance(fault, RestartBroker)]
    return replace(plan, process_faults=faults, heals_by_restart=False)


@dataclass(slots=True)
class _Chaos:
    system: System
    plan: Plan
    upstream: Upstream
    clusters: Clusters
    outages: Outages
    cpu_share: float | None = None
    """With too little CPU no swap may run in vain more than once."""
    oracle: Oracle = field(default_factory=Oracle)
    experience: Experience = field(default_factory=Experience)
    caller: Caller = field(init=False)
    readings: list[Reading] = field(default_factory=list)
    refused: int = 0
    stuck: bool = False
    _kb_ids: dict[str, str] = field(default_factory=dict)
    _published: list[DocumentEvent] = field(default_factory=list)
    _thrown: list[Throw] = field(default_factory=list)
    _restarts_known: int = 0
    _upstream_still: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.caller = Caller(self.system, self.experience, patient=self.clusters.any)

    async def live(self) -> list[str]:
        await self._prepare()
        clock = Clock()
        outages = ClusterFaults(self.clusters, self.outages, clock)
        faults = Faults(self.system.stack, self.plan, clock, self._upstream_still)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for reading in self.readings:
                group.create_task(self._read_until(reading, stop))
            await run_all(self._change(clock, faults), faults.fail_processes(), faults.fail_provider(), outages.fail())
            await self.clusters.heal()
            await self.caller.settle()
            await self._publish_again_if_lost(faults)
            await self._heal(faults)
            problems = await self._what_keeps_moving()
            self.stuck = bool(problems)
            if not self.stuck:
                problems = await self._what_is_wrong()
            stop.set()
        if self.cpu_share is not None:
            problems += run_too_often(self._indexer_logs())
        problems += [f"{each.document_id} was read {each.wrong[:5]}" for each in self.readings if each.wrong]
        return problems + self.caller.wrong + faults.wrong

    async def _prepare(self) -> None:
        """Have what is read searchable before anything happens."""
        await self.system.create_tags("a", "b", "c")
        await self._create(READ, (WATCHED_TAG,))
        for document_id in WATCHED:
            revisions = Revisions(document_id, seed=self.plan.seed)
            reading = Reading(self.system, self._kb_ids[READ], document_id, revisions, self.experience)
            self.readings.append(reading)
            await self._publish(self._text_of(reading, 1))
        await self.caller.settle()
        await until_quiescent(self.system)
        await self.system.until_active(self._kb_ids[READ], within_s=SLOW_S)
        for reading in self.readings:
            await until(partial(_newest_is_read, reading), within_s=SLOW_S, what="the first texts are found")
            reading.wrong.clear()

    async def _change(self, clock: Clock, faults: Faults) -> None:
        for change in self.plan.changes:
            await clock.reach(change.at_s)
            async with self._upstream_still:
                await self._publish_again_if_lost(faults)
                await self._do(change)

    async def _do(self, change: Change) -> None:
        match change:
            case Deliver():
                await self._publish(change.event)
            case Throw():
                self._thrown.append(change)
                self.oracle.rubbish.append(change.rubbish)
                await self._throw(change)
            case Reread():
                await self._reread(change)
            case Create():
                await self._create(change.name, change.tag_ids)
            case Retag():
                await self.caller.change("PUT", self._path_of(change.name), {"tag_ids": list(change.tag_ids)})
                self.oracle.created(self._kb_ids[change.name], *change.tag_ids)
            case Drop():
                await self.caller.change("DELETE", self._path_of(change.name))
                self.oracle.deleted(self._kb_ids.pop(change.name))

    async def _reread(self, change: Reread) -> None:
        reading = next(each for each in self.readings if each.document_id == change.document_id)
        if change.replay:
            await self._publish(self._text_of(reading, max(1, len(reading.revisions.published) - 1)))
            return
        reading.revisions.step()
        await self._publish(self._text_of(reading, len(reading.revisions.published)))

    def _text_of(self, reading: Reading, revision: int) -> DocumentEvent:
        text = reading.revisions.published[revision - 1]
        return self.upstream.ocr(reading.document_id, text, tags=[WATCHED_TAG], revision=revision)

    async def _publish(self, event: DocumentEvent) -> None:
        if event not in self._published:
            self._published.append(event)
            self.oracle.published(event)
        await self.caller.publish(event)

    async def _publish_again_if_lost(self, faults: Faults) -> None:
        """What upstreams do for a broker that lost what it had acknowledged."""
        if self._restarts_known == faults.broker_restarts:
            return
        self._restarts_known = faults.broker_restarts
        await self.system.events.publish_all(self._published)
        for thrown in self._thrown:
            await self._throw(thrown)

    async def _throw(self, thrown: Throw) -> None:
        await self.caller.throw(thrown.document_id, thrown.rubbish)

    async def _create(self, name: str, tag_ids: Sequence[str]) -> None:
        kb_id = await self.caller.create_knowledge_base(*tag_ids)
        self._kb_ids[name] = kb_id
        self.oracle.created(kb_id, *tag_ids)

    def _path_of(self, name: str) -> str:
        return f"/knowledge-bases/{self._kb_ids[name]}"

    async def _read_until(self, reading: Reading, stop: asyncio.Event) -> None:
        while not stop.is_set():
            if await reading.try_to_read() is None:
                self.refused += 1
            # Readers that never rest would leave a slow mongod little for anything else.
            await asyncio.sleep(BETWEEN_READS_S / (self.cpu_share or 1))

    async def _heal(self, faults: Faults) -> None:
        await faults.heal()
        if not self.plan.heals_by_restart:
            return
        stack = self.system.stack
        producers = [name for name in stack.services if name.partition(":")[0] in _PRODUCERS]
        for name in producers:
            if status := await stack.services[name].stop(timeout_s=SLOW_S):
                faults.wrong.append(f"{name} stopped with status {status}")
        await let_leases_expire(self.system.database, relays=True)
        await let_circuits_close(self.system.database)
        await run_all(*(stack.services[name].start() for name in producers))

    async def _what_keeps_moving(self) -> list[str]:
        try:
            await until_quiescent(self.system)
            await self.system.until_active(*self.oracle.knowledge_bases, within_s=SLOW_S)
            await until(self._deleted_are_gone, within_s=SLOW_S, what="no KB left that is being deleted")
            await until_quiescent(self.system)
            for reading in self.readings:
                what = f"{reading.document_id} as it is"
                await until(partial(_newest_is_read, reading), within_s=SLOW_S, what=what)
        except (TimeoutError, httpx.HTTPError) as error:
            return [str(error)]
        return []

    async def _what_is_wrong(self) -> list[str]:
        return [f"{problem.document_id} {problem.what}" for problem in await self.oracle.check(self.system)]

    def _indexer_logs(self) -> list[Path]:
        return sorted(self.system.stack.services[indexer_names(1)[0]].log.parent.glob("kb-indexer*.log"))

    async def _deleted_are_gone(self) -> bool:
        there = await self.system.database.knowledge_bases.distinct("_id")
        return len(there) == len(self.oracle.knowledge_bases)


async def _newest_is_read(reading: Reading) -> bool:
    return await reading.try_to_read() == set(reading.revisions.newest)


def _slow(servers: ChaosServers, stack: Stack) -> AbstractAsyncContextManager[None]:
    """Hold indexers and mongods to their share of a CPU, if they have one."""
    if servers.cpu_share is None:
        return nullcontext()

    def slow_ones() -> list[Server]:
        return [*servers.mongods, *(each for name, each in stack.services.items() if name.startswith("kb_indexer"))]

    return limit_cpu(servers.cpu_share, slow_ones)


def _forgiveness(servers: ChaosServers) -> dict[str, str]:
    """Return how soon leases and sessions end; with little CPU a process needs the time that it has in production."""
    if servers.cpu_share is not None:
        return {"KB_KAFKA_FETCH_MAX_WAIT_MS": "500"}
    return QUICK if servers.clusters.brokers is None else QUICK_ON_KAFKA


@asynccontextmanager
async def _system(servers: ChaosServers, folder: Path, plan: Plan, *, reconciler: bool) -> AsyncIterator[System]:
    name = f"chaos_{plan.seed}_{uuid4().hex[:12]}"
    brokers = servers.clusters.brokers
    services = ["kb_api", *indexer_names(plan.replicas), "kb_search", *(["kb_reconciler"] if reconciler else [])]
    async with (
        Stack(
            folder,
            services=services,
            env={
                **_forgiveness(servers),
                "KB_RECONCILE_INTERVAL_S": f"{1 / (servers.cpu_share or 1):g}",
                "KB_MAX_KNOWLEDGE_BASES": "100",
            },
            lag_ms=plan.lag_ms,
            mongo_uri=servers.mongo_uri,
            kafka=None if brokers is None else brokers.bootstrap(),
            models_api_base=servers.models_api_base,
            zygote=servers.zygote,
            database=name,
            topic_prefix="" if brokers is None else f"{name}.",
        ) as stack,
        system(stack, http_timeout_s=SLOW_S) as opened,
    ):
        yield opened
        await opened.database.client.drop_database(name)
    if brokers is not None:
        await brokers.delete_topics_of(f"{name}.")
