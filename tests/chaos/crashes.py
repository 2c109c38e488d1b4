"""Kills the indexer at failpoints, one after the other, under a workload with all changes of documents.

In a chain, the process that recovers the work of its predecessor is itself killed at the next failpoint. Only the
last process of a lane survives, and the oracle checks its result.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from kb_contracts import topics
from kb_contracts.documents import DocumentEvent
from kb_local.broker import Broker
from kb_local.server import Server
from kb_local.stack import Stack
from kb_local.zygote import Zygote
from kb_shared.failpoints import OF_INDEXER
from tests.chaos.expiry import expire_leases
from tests.chaos.oracle import Oracle, OracleFinding
from tests.chaos.quiescence import SLOW_S, until_quiescent
from tests.chaos.workload import Upstream, events_of_every_change, select_part
from tests.e2e.system import QUICK, QUICK_ON_KAFKA, SystemUnderTest, system

DIES_WITHIN_S = 120.0
LEASED_FOR_LONG = ("backfill.", "sweeper.", "outbox.")
"""Failpoints at which a killed process leaves leases of half a minute behind."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Servers that all lanes share; each lane has its own database, topics and services."""

    mongo_uri: str
    kafka: Broker | str
    models_api_base: str
    zygote: Zygote


@dataclass(frozen=True, slots=True)
class Kill:
    """One round: its number, which its documents are named by, and where the process is to die."""

    number: int
    failpoint: str
    nth: int = 1
    part: int | None = None
    """Index of one of the `PARTS` of ways in which documents change; None: all."""

    @property
    def documents(self) -> str:
        return f"{self.number:03}"


@dataclass(frozen=True, slots=True)
class CrashOutcome:
    kill: Kill
    exit_status: int | None
    """Exit status; None if the process did not reach the failpoint."""
    problems: tuple[str, ...]
    """With the documents of this round, once all was over."""


async def run_lane(
    servers: Servers, folder: Path, kills: Sequence[Kill], *, expire_leases_early: bool
) -> tuple[list[CrashOutcome], list[str]]:
    """Run one chain; return the outcome of each round, and the problems that belong to no round.

    Args:
        expire_leases_early: pretend that half a minute goes by where a lease lasts so long, instead of waiting for it.
    """
    relays_itself = kills[0].failpoint.startswith("outbox.")
    async with _lane(servers, folder) as lane:
        await lane.prepare(kills)
        if relays_itself:
            # kb-api has a relay too; what it holds the indexer never sends.
            await lane.system.stack.stop_service("kb_api")
        statuses = [await lane.kill(kill, expire_leases_early=expire_leases_early) for kill in kills]
        if relays_itself:
            await lane.system.stack.start_service("kb_api")
        await lane.recover()
        problems = await lane.oracle.check(lane.system)
    outcomes = [
        CrashOutcome(kill, status, tuple(map(_describe, _of(problems, kill))))
        for kill, status in zip(kills, statuses, strict=True)
    ]
    attributed = {problem for kill in kills for problem in _of(problems, kill)}
    return outcomes, [_describe(problem) for problem in problems if problem not in attributed]


def distribute_failpoints(lanes: int, *, in_parts: bool = False) -> list[list[Kill]]:
    """Every failpoint once, in as many chains; each met by all changes of documents, or by one part of them.

    Those that need something special of their lane stand at its head. The sweeper finds what a process leaves that
    died at work on it.
    """
    chains = [["backfill.after_jobs", "backfill.after_publish"], ["sync.after_claim", "sweeper.after_lease"]]
    chains += [["outbox.after_send"]]
    chains += [[] for _ in range(lanes - len(chains))]
    for name in [name for name in OF_INDEXER if not any(name in chain for chain in chains)]:
        min(chains, key=len).append(name)
    numbers = iter(range(len(OF_INDEXER)))
    kills = [[Kill(next(numbers), name) for name in chain] for chain in chains]
    return [[replace(kill, part=kill.number) for kill in chain] for chain in kills] if in_parts else kills


def draw_failpoints(seed: int, rounds: int, lanes: int) -> list[list[Kill]]:
    """Failpoints that documents lead to, at one of the first three times that a process gets there."""
    dice = random.Random(seed)
    often = [name for name in OF_INDEXER if name.startswith(("fan_out.", "sync.", "swap.", "removal."))]
    kills = [Kill(n, dice.choice(often), dice.randint(1, 3)) for n in range(rounds)]
    return [kills[n::lanes] for n in range(lanes)]


@dataclass(frozen=True, slots=True)
class _CrashLane:
    system: SystemUnderTest
    oracle: Oracle
    upstream: Upstream

    async def prepare(self, kills: Sequence[Kill]) -> None:
        """Index the documents that the rounds will change, without faults."""
        await self.system.create_tags("a", "b")
        for tag in ("a", "b"):
            self.oracle.record_knowledge_base(await self.system.create_knowledge_base(tag), tag)
        for kill in kills:
            before, _ = self._changes(kill)
            await self._publish(*before)
        await until_quiescent(self.system)
        await self.system.until_active(*self.oracle.knowledge_bases, within_s=SLOW_S)
        stopped = await self.system.stack.services["kb_indexer"].stop(timeout_s=SLOW_S)
        assert stopped == 0, "SIGTERM is an orderly end"

    async def kill(self, kill: Kill, *, expire_leases_early: bool) -> int | None:
        """Run an indexer until it dies at a failpoint, under the workload; return its exit status."""
        if kill.failpoint.startswith("sweeper."):
            # Once the lease has run out, the command that comes again may be first to find the job.
            await expire_leases(self.system.database, relays=False)
        indexer = self.system.stack.services["kb_indexer"]
        indexer.env = {**self.system.stack.environment, "KB_FAILPOINT": f"{kill.failpoint}:{kill.nth}"}
        # Not `start`: it may be dead before it is ready, at work on what its predecessor left.
        indexer.launch()
        if kill.failpoint.startswith("backfill."):
            self.oracle.record_knowledge_base(await self.system.create_knowledge_base("a", "b"), "a", "b")
        _, after = self._changes(kill)
        await self._publish(*after)
        await self._publish_malformed(kill)
        status = await _wait_until_dead(indexer)
        if expire_leases_early and kill.failpoint.startswith(LEASED_FOR_LONG):
            await expire_leases(self.system.database, relays=kill.failpoint.startswith("outbox."))
        return status

    async def recover(self) -> None:
        await self.system.stack.start_service("kb_indexer")
        await until_quiescent(self.system)
        await self.system.until_active(*self.oracle.knowledge_bases, within_s=SLOW_S)

    def _changes(self, kill: Kill) -> tuple[list[DocumentEvent], list[DocumentEvent]]:
        before, after = events_of_every_change(self.upstream, kill.documents)
        if kill.part is None:
            return before, after
        return select_part(kill.documents, kill.part, before), select_part(kill.documents, kill.part, after)

    async def _publish(self, *events: DocumentEvent) -> None:
        self.oracle.record_published(*events)
        await self.system.events.publish_all(events)

    async def _publish_malformed(self, kill: Kill) -> None:
        malformed = f"not JSON, in round {kill.number}".encode()
        self.oracle.malformed.append(malformed)
        key = f"{self.system.organization_id}/{kill.documents}-malformed".encode()
        await self.system.kafka.send(topics.DOCUMENT_EVENTS, key, malformed)


async def _wait_until_dead(process: Server) -> int | None:
    """Return how the process ended; None if it has to be ended here."""
    try:
        async with asyncio.timeout(DIES_WITHIN_S):
            return await process.wait()
    except TimeoutError:
        await process.kill()
        return None


@asynccontextmanager
async def one_indexer(servers: Servers, folder: Path) -> AsyncIterator[SystemUnderTest]:
    """A system with a database and topics of its own, whose indexer is about to be killed."""
    name = f"crashes_{uuid4().hex[:12]}"
    async with (
        Stack(
            folder,
            services=("kb_api", "kb_indexer"),
            env=QUICK if isinstance(servers.kafka, Broker) else QUICK_ON_KAFKA,
            mongo_uri=servers.mongo_uri,
            kafka=servers.kafka,
            models_api_base=servers.models_api_base,
            zygote=servers.zygote,
            database=name,
            topic_prefix=f"{name}.",
        ) as stack,
        system(stack) as opened,
    ):
        yield opened
        await opened.database.client.drop_database(name)


@asynccontextmanager
async def _lane(servers: Servers, folder: Path) -> AsyncIterator[_CrashLane]:
    async with one_indexer(servers, folder) as opened:
        yield _CrashLane(opened, Oracle(), Upstream(opened.organization_id))


def _of(problems: Sequence[OracleFinding], kill: Kill) -> list[OracleFinding]:
    return [problem for problem in problems if (problem.document_id or "").startswith(f"{kill.documents}-")]


def _describe(problem: OracleFinding) -> str:
    return f"{problem.document_id} {problem.what}" if problem.document_id else problem.what
