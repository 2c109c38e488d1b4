"""One run of chaos: starts a system, executes a plan against it, and checks the result with the oracle."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic

import httpx

from kb_contracts import topics
from kb_contracts.documents import DocumentEvent
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from tests.chaos.availability import AvailabilityRecorder
from tests.chaos.caller import RecordingCaller
from tests.chaos.chaos_system import ChaosServers, chaos_system, limit_cpu_shares
from tests.chaos.clock import Clock
from tests.chaos.cluster_faults import ClusterFaults, Clusters
from tests.chaos.curated_knowledge import CuratedKnowledge, curated_knowledge
from tests.chaos.document_reader import DocumentReader
from tests.chaos.expiry import close_circuits, expire_leases
from tests.chaos.faults import Faults, indexer_names
from tests.chaos.oracle import Oracle, read_json
from tests.chaos.outages import Outages, create_outages
from tests.chaos.plan import (
    READ,
    WATCHED,
    WATCHED_TAG,
    Change,
    Create,
    Deliver,
    Drop,
    FaultPlan,
    RestartBroker,
    Retag,
    ReviseWatched,
    SendMalformed,
    create_plan,
)
from tests.chaos.quiescence import SLOW_S, until_quiescent
from tests.chaos.restore_midway import (
    BACKUP_BEGINS_AT,
    RESTORED_AT,
    back_up_stack,
    is_about_source,
    is_made_by_users,
    kill_services,
    move_to_backup,
    split_plan,
)
from tests.chaos.revisions import Revisions
from tests.chaos.swap_runs import run_too_often
from tests.chaos.workload import Upstream
from tests.e2e.system import SystemUnderTest, until

BETWEEN_READS_S = 0.05
_PRODUCERS = ("kb_api", "kb_indexer", "kb_reconciler")


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
    """Number of each answer that callers saw, such as `search 503`."""
    gaps_s: Mapping[str, float] = field(default_factory=dict)
    """The longest time, of each thing that they did, without success."""


async def run(
    servers: ChaosServers,
    folder: Path,
    seed: int,
    *,
    seconds: float,
    replicas: int,
    reconciler: bool,
    restore_midway: bool = False,
) -> Verdict:
    """Execute the plan of a seed; return all problems seen during it and after it."""
    began = monotonic()
    upstream = Upstream("local")
    plan = create_plan(seed, seconds=seconds, replicas=replicas, upstream=upstream)
    clusters = servers.clusters
    if clusters.brokers is not None:
        plan = without_broker_restarts(plan)
    outages = create_outages(
        seed, seconds=seconds, brokers=clusters.number_of_brokers, members=clusters.number_of_members
    )
    await clusters.heal()
    async with (
        chaos_system(servers, folder, plan, reconciler=reconciler) as opened,
        limit_cpu_shares(servers, opened.stack),
    ):
        availability, oracle = AvailabilityRecorder(), Oracle()
        caller = RecordingCaller(opened, availability, retries=clusters.any)
        async with curated_knowledge(opened, caller, oracle, seed=seed, availability=availability) as knowledge:
            chaos = _Chaos(
                opened,
                plan,
                upstream,
                clusters,
                outages,
                caller,
                oracle,
                availability,
                knowledge,
                cpu_share=servers.cpu_share,
            )
            problems = await chaos.run(folder / "backup" if restore_midway else None)
        reads = sum(each.reads for each in chaos.readers)
        seen = chaos.availability.summary()
        took_s = monotonic() - began
        return Verdict(problems, reads, chaos.refused, chaos.stuck, took_s, seen.answers, seen.gaps_s)


def without_broker_restarts(plan: FaultPlan) -> FaultPlan:
    """Return the plan without what only a broker without memory needs: nothing that was acknowledged gets lost."""
    faults = [fault for fault in plan.process_faults if not isinstance(fault, RestartBroker)]
    return replace(plan, process_faults=faults, heals_by_restart=False)


@dataclass(slots=True)
class _Chaos:
    system: SystemUnderTest
    plan: FaultPlan
    upstream: Upstream
    clusters: Clusters
    outages: Outages
    caller: RecordingCaller
    oracle: Oracle
    availability: AvailabilityRecorder
    knowledge: CuratedKnowledge
    cpu_share: float | None = None
    """With too little CPU no swap may run in vain more than once."""
    readers: list[DocumentReader] = field(default_factory=list)
    refused: int = 0
    stuck: bool = False
    _kb_ids: dict[str, str] = field(default_factory=dict)
    _published: list[DocumentEvent] = field(default_factory=list)
    _malformed_sent: list[SendMalformed] = field(default_factory=list)
    _restarts_known: int = 0
    _upstream_still: asyncio.Lock = field(default_factory=asyncio.Lock)
    _is_backed_up: bool = False
    _postponed: list[Change] = field(default_factory=list)
    """Changes that users have made since the backup began, and all that is about the source until it is restored."""
    _is_to_be_lost: bool = False

    async def run(self, backup: Path | None) -> list[str]:
        """Execute the plan.

        Args:
            backup: folder of a backup that is made and restored in the middle of the plan; None: it is not.
        """
        await self._prepare()
        problems = [] if backup is None else await self._run_until_lost(backup)
        return problems + await self._run_to_the_end()

    async def _run_until_lost(self, backup: Path) -> list[str]:
        """Execute the first part of the plan, and continue with the backup that is made meanwhile."""
        rest = self.plan
        self.plan, rest = split_plan(self.plan)
        self._is_to_be_lost = True
        clock = Clock()
        faults = self._make_faults(clock)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for reader in self.readers:
                group.create_task(self._read_until(reader, stop))
            await run_all_or_cancel(
                [
                    self._change(clock, faults),
                    faults.fail_processes(),
                    faults.fail_runner(),
                    faults.fail_provider(),
                    self._back_up(clock, backup),
                ]
            )
            await self.caller.wait_until_acknowledged()
            await self._publish_again_if_lost(faults)
            stop.set()
        await self._continue_with(backup)
        self.plan = replace(rest, changes=[*(replace(each, at_s=0) for each in self._postponed), *rest.changes])
        return faults.violations

    async def _back_up(self, clock: Clock, folder: Path) -> None:
        await clock.reach(self.plan.seconds * BACKUP_BEGINS_AT / RESTORED_AT)
        async with self._upstream_still:
            self._is_backed_up = True
        await back_up_stack(self.system.stack, folder)

    async def _continue_with(self, backup: Path) -> None:
        """Restore the backup into another database, and publish all events again, as upstreams do after a loss."""
        name = f"{self.system.stack.database}_restored"
        await kill_services(self.system.stack)
        announced = await self.system.kafka.read(topics.KB_EVENTS)
        self.oracle.outdated_announcements |= {read_json(message)["id"] for message in announced}
        self.oracle.forgotten_charges |= await move_to_backup(self.system.stack, backup, database=name)
        self.system = replace(self.system, database=self.system.database.client[name])
        await self.system.events.publish_all(self._published)
        for sent in self._malformed_sent:
            await self._send_malformed(sent)
        self._is_backed_up = self._is_to_be_lost = False
        await until_quiescent(self.system)
        for reader in self.readers:
            await until(partial(_newest_is_read, reader), within_s=SLOW_S, what="the newest texts are found again")

    async def _run_to_the_end(self) -> list[str]:
        clock = Clock()
        outages = ClusterFaults(self.clusters, self.outages, clock)
        faults = self._make_faults(clock)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for reader in self.readers:
                group.create_task(self._read_until(reader, stop))
            await run_all_or_cancel(
                [
                    self._change(clock, faults),
                    faults.fail_processes(),
                    faults.fail_runner(),
                    faults.fail_provider(),
                    outages.fail(),
                ]
            )
            await self.clusters.heal()
            await self.caller.wait_until_acknowledged()
            await self._publish_again_if_lost(faults)
            await self._heal(faults)
            problems = await self._wait_until_quiescent()
            self.stuck = bool(problems)
            if not self.stuck:
                problems = await self._find_problems(faults)
            stop.set()
        if self.cpu_share is not None:
            problems += run_too_often(self._indexer_logs())
        problems += [f"{each.document_id} was read {each.violations[:5]}" for each in self.readers if each.violations]
        return problems + self.caller.violations + faults.violations

    async def _prepare(self) -> None:
        """Have what is read searchable before anything happens."""
        await self.system.create_tags("a", "b", "c")
        await self._create(READ, (WATCHED_TAG,))
        for document_id in WATCHED:
            revisions = Revisions(document_id, seed=self.plan.seed)
            reader = DocumentReader(self.system, self._kb_ids[READ], document_id, revisions, self.availability)
            self.readers.append(reader)
            await self._publish(self._text_of(reader, 1))
        await self.knowledge.write_first_text()
        self.readers.append(self.knowledge.reader)
        await self.caller.wait_until_acknowledged()
        await until_quiescent(self.system)
        await self.system.until_active(self._kb_ids[READ], self.knowledge.reader.kb_id, within_s=SLOW_S)
        for reader in self.readers:
            await until(partial(_newest_is_read, reader), within_s=SLOW_S, what="the first texts are found")
            reader.violations.clear()

    async def _change(self, clock: Clock, faults: Faults) -> None:
        for change in self.plan.changes:
            await clock.reach(change.at_s)
            async with self._upstream_still:
                await self._publish_again_if_lost(faults)
                if (self._is_backed_up and is_made_by_users(change)) or (
                    self._is_to_be_lost and is_about_source(change)
                ):
                    self._postponed.append(change)
                else:
                    await self._apply(change)

    async def _apply(self, change: Change) -> None:
        match change:
            case Deliver():
                await self._publish(change.event)
            case SendMalformed():
                self._malformed_sent.append(change)
                self.oracle.malformed.append(change.malformed)
                await self._send_malformed(change)
            case ReviseWatched():
                await self._revise_watched(change)
            case Create():
                await self._create(change.name, change.tag_ids)
            case Retag():
                await self.caller.change("PUT", self._path_of(change.name), {"tag_ids": list(change.tag_ids)})
                self.oracle.record_knowledge_base(self._kb_ids[change.name], *change.tag_ids)
            case Drop():
                await self.caller.change("DELETE", self._path_of(change.name))
                self.oracle.record_deleted(self._kb_ids.pop(change.name))
            case _:
                await self.knowledge.apply(change)

    async def _revise_watched(self, change: ReviseWatched) -> None:
        reader = next(each for each in self.readers if each.document_id == change.document_id)
        if change.replay:
            await self._publish(self._text_of(reader, max(1, len(reader.revisions.published) - 1)))
            return
        reader.revisions.step()
        await self._publish(self._text_of(reader, len(reader.revisions.published)))

    def _text_of(self, reader: DocumentReader, revision: int) -> DocumentEvent:
        text = reader.revisions.published[revision - 1]
        return self.upstream.ocr(reader.document_id, text, tags=[WATCHED_TAG], revision=revision)

    async def _publish(self, event: DocumentEvent) -> None:
        if event not in self._published:
            self._published.append(event)
            self.oracle.record_published(event)
        await self.caller.publish(event)

    async def _publish_again_if_lost(self, faults: Faults) -> None:
        """Publish all events again, as upstreams do for a broker that lost acknowledged ones."""
        if self._restarts_known == faults.broker_restarts:
            return
        self._restarts_known = faults.broker_restarts
        await self.system.events.publish_all(self._published)
        for sent in self._malformed_sent:
            await self._send_malformed(sent)

    async def _send_malformed(self, sent: SendMalformed) -> None:
        await self.caller.send_malformed(sent.document_id, sent.malformed)

    async def _create(self, name: str, tag_ids: Sequence[str]) -> None:
        kb_id = await self.caller.create_knowledge_base(*tag_ids)
        self._kb_ids[name] = kb_id
        self.oracle.record_knowledge_base(kb_id, *tag_ids)

    def _path_of(self, name: str) -> str:
        return f"/knowledge-bases/{self._kb_ids[name]}"

    async def _read_until(self, reader: DocumentReader, stop: asyncio.Event) -> None:
        while not stop.is_set():
            if await reader.try_to_read() is None:
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
                faults.violations.append(f"{name} stopped with status {status}")
        await expire_leases(self.system.database, relays=True)
        await close_circuits(self.system.database)
        await run_all_or_cancel(stack.services[name].start() for name in producers)

    async def _wait_until_quiescent(self) -> list[str]:
        try:
            await self.knowledge.read_site()
            await until_quiescent(self.system)
            await self.system.until_active(*self.oracle.knowledge_bases, within_s=SLOW_S)
            await until(self._deleted_are_gone, within_s=SLOW_S, what="no KB left that is being deleted")
            await until_quiescent(self.system)
            for reader in self.readers:
                what = f"{reader.document_id} as it is"
                await until(partial(_newest_is_read, reader), within_s=SLOW_S, what=what)
            await self.knowledge.until_ready(self.system)
        except (TimeoutError, httpx.HTTPError) as error:
            return [str(error)]
        return []

    async def _find_problems(self, faults: Faults) -> list[str]:
        await self.knowledge.record_fetched(self.system)
        problems = await self.oracle.check(self.system)
        problems += await self.knowledge.find_problems(self.system, kills=faults.runner_kills)
        return [f"{problem.document_id} {problem.what}" for problem in problems]

    def _make_faults(self, clock: Clock) -> Faults:
        return Faults(self.system.stack, self.plan, clock, self.system.database, self._upstream_still)

    def _indexer_logs(self) -> list[Path]:
        return sorted(self.system.stack.services[indexer_names(1)[0]].log.parent.glob("kb-indexer*.log"))

    async def _deleted_are_gone(self) -> bool:
        there = await self.system.database.knowledge_bases.distinct("_id")
        return len(there) == len(self.oracle.knowledge_bases)


async def _newest_is_read(reader: DocumentReader) -> bool:
    return await reader.try_to_read() == set(reader.revisions.newest)
