"""The only place that makes clients and wires them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from time import time
from typing import Final
from uuid import uuid4

import structlog
from pymongo.errors import PyMongoError

from kb_reconciler.count_states import keep_counting_states
from kb_reconciler.drift.kinds import RepairTools
from kb_reconciler.drift.search_index import repair_search_indexes
from kb_reconciler.drift.unreferenced_text import sweep_texts
from kb_reconciler.indexes import COLLECTIONS
from kb_reconciler.migrations.migrate import LEASE as LEASE_OF_MIGRATIONS
from kb_reconciler.migrations.migrate import Migrator
from kb_reconciler.passes import Passes
from kb_reconciler.plans import PlanRunner
from kb_reconciler.settings import ReconcilerSettings
from kb_reconciler.state import LeadershipLost
from kb_shared.errors import TransientError
from kb_shared.http.health import Readiness, mongodb_answers, serve_health_during
from kb_shared.kafka.bootstrap import create_kafka_watch
from kb_shared.kafka.group_watch import KafkaWatch
from kb_shared.messaging.index_requests import IndexRequests
from kb_shared.mongo import leases, reconcile_plans
from kb_shared.mongo.database import Database
from kb_shared.mongo.work_watch import WorkWatch
from kb_shared.observability.metrics import RECONCILER_LAST_SUCCESS_TIMESTAMP_SECONDS, RECONCILER_LEADER
from kb_shared.service import process
from kb_shared.service.connections import connect

STATES_COUNTED_EVERY_S: Final = 60.0
LEASE_OF_PASSES: Final = "reconciler"
_LEASE_OF_SWEEPS: Final = "text-sweep"

log = structlog.get_logger()


async def serve(settings: ReconcilerSettings, stop: asyncio.Event) -> None:
    """Serve health, and make passes as soon as MongoDB and Kafka are available, until `stop`."""
    readiness = Readiness()

    async def work() -> None:
        with suppress(process.Stopped):
            async with build(settings, stop, readiness) as reconciler:
                await reconciler.run(stop)

    await serve_health_during(settings, readiness.why_not_ready, work())


@dataclass(frozen=True, slots=True)
class Reconciler:
    """Passes on an interval; of several replicas one at a time."""

    settings: ReconcilerSettings
    database: Database
    requests: IndexRequests
    owner: str
    kafka: KafkaWatch

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`. If a part fails, all end: a new process is better than half of one."""
        plans = self._plan_runner()
        watch = WorkWatch(self.database, {reconcile_plans.NAME: (plans.signal, reconcile_plans.WORK)})
        async with asyncio.TaskGroup() as parts:
            rounds = [
                parts.create_task(self.kafka.run()),
                parts.create_task(keep_counting_states(self.database, interval_s=self._states_counted_every_s)),
                parts.create_task(self._every(self.settings.reconcile_interval_s, LEASE_OF_PASSES, self._one_pass)),
                parts.create_task(plans.run()),
                parts.create_task(watch.run()),
                parts.create_task(Migrator(self.database, self.owner).run()),
                parts.create_task(self._every(self.settings.text_sweep_interval_s, _LEASE_OF_SWEEPS, self._sweep)),
            ]
            await stop.wait()
            for part in rounds:
                part.cancel()

    async def _every(self, interval_s: float, lease: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do `work` for ever, of all replicas in the one that holds `lease`."""
        length = _lease_length(interval_s)
        while True:
            try:
                is_mine = await leases.acquire(self.database, lease, owner=self.owner, length=length)
                if lease == LEASE_OF_PASSES:
                    RECONCILER_LEADER.set(is_mine)
                if is_mine:
                    await work()
            except (PyMongoError, TransientError, LeadershipLost) as error:
                log.warning("round.interrupted", round=lease, error=type(error).__name__)
            await asyncio.sleep(interval_s)

    async def _one_pass(self) -> None:
        await repair_search_indexes(self.database)
        passes = Passes(self._tools, grace=self._grace)
        await passes.make_due_pass(
            full_interval=timedelta(seconds=self.settings.reconcile_full_interval_s), still_leader=self._renew_lease
        )
        RECONCILER_LAST_SUCCESS_TIMESTAMP_SECONDS.set(time())

    @property
    def _states_counted_every_s(self) -> float:
        return min(STATES_COUNTED_EVERY_S, self.settings.reconcile_interval_s)

    @property
    def _tools(self) -> RepairTools:
        return RepairTools(self.database, self.requests)

    @property
    def _grace(self) -> timedelta:
        return timedelta(seconds=self.settings.reconcile_grace_s)

    def _plan_runner(self) -> PlanRunner:
        return PlanRunner(self._tools, grace=self._grace, owner=self.owner)

    async def _renew_lease(self) -> None:
        length = _lease_length(self.settings.reconcile_interval_s)
        if not await leases.acquire(self.database, LEASE_OF_PASSES, owner=self.owner, length=length):
            RECONCILER_LEADER.set(False)
            raise LeadershipLost

    async def _sweep(self) -> None:
        await sweep_texts(self.database)


def _lease_length(interval_s: float) -> timedelta:
    return timedelta(seconds=max(60.0, 2 * interval_s))


@asynccontextmanager
async def build(settings: ReconcilerSettings, stop: asyncio.Event, readiness: Readiness) -> AsyncIterator[Reconciler]:
    """Make the reconciler of `settings` once MongoDB and Kafka answer; what it holds open is closed on leaving.

    Raises:
        Stopped: `stop` was set while it waited for them.
    """
    connecting = connect(settings, stop, note=readiness.wait_for, collections=COLLECTIONS)
    async with connecting as connections, AsyncExitStack() as open_things:
        database = connections.database
        owner = str(uuid4())
        open_things.push_async_callback(_let_go, database, owner)
        requests = IndexRequests(
            database, connections.producer, topic_prefix=settings.kafka_topic_prefix, source="/kb/reconciler"
        )
        kafka = create_kafka_watch(settings)
        readiness.started(mongodb_answers(database), kafka.why_not_ready)
        yield Reconciler(settings, database, requests, owner, kafka)


async def _let_go(database: Database, owner: str) -> None:
    with suppress(PyMongoError):  # they expire
        for lease in (LEASE_OF_PASSES, _LEASE_OF_SWEEPS, LEASE_OF_MIGRATIONS):
            await leases.release(database, lease, owner=owner)
