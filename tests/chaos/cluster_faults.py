"""Does to the brokers and mongods of a run what its outages say, and heals them."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from kb_local.errors import ServerNotReady
from kb_local.replica_set import ReplicaSet
from kb_local.server import Server
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from tests.chaos.clock import Clock
from tests.chaos.outages import Outage, Outages, ServerFault
from tests.kafka_cluster.cluster import KafkaBrokers


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters that runs share; None: a single server instead."""

    brokers: KafkaBrokers | None = None
    members: ReplicaSet | None = None

    @property
    def any(self) -> bool:
        return self.brokers is not None or self.members is not None

    @property
    def number_of_brokers(self) -> int:
        return 0 if self.brokers is None else len(self.brokers.brokers)

    @property
    def number_of_members(self) -> int:
        return 0 if self.members is None else len(self.members.members)

    async def heal(self) -> None:
        """Have every broker and every mongod run and replicate."""
        if self.brokers is not None:
            await self.brokers.heal()
        if self.members is not None:
            await self.members.heal()


@dataclass(frozen=True, slots=True)
class ClusterFaults:
    clusters: Clusters
    outages: Outages
    clock: Clock

    async def fail(self) -> None:
        """Carry out all outages; afterwards every server runs again, though it may lag behind the others."""
        brokers, members = self.clusters.brokers, self.clusters.members
        await run_all_or_cancel(
            [
                *([] if brokers is None else [self._all(self.outages.brokers, brokers.brokers, brokers.controller)]),
                *([] if members is None else [self._all(self.outages.members, members.members, members.primary)]),
            ]
        )

    async def _all(
        self, faults: Sequence[ServerFault], servers: Sequence[Server], leader: Callable[[], Awaitable[Server]]
    ) -> None:
        for fault in faults:
            await self.clock.reach(fault.at_s)
            await self._one(fault, await leader() if fault.targets_leader else servers[fault.number])

    async def _one(self, fault: ServerFault, server: Server) -> None:
        match fault.outage:
            case Outage.KILL:
                await server.kill()
                await self.clock.reach(fault.until_s)
                await server.start()
            case Outage.RESTART:
                await server.stop()
                await self.clock.reach(fault.until_s)
                await server.start()
            case Outage.FREEZE:
                await server.pause()
                await self.clock.reach(fault.until_s)
                server.resume()
            case Outage.STEP_DOWN:
                assert self.clusters.members is not None, "only a primary steps down"
                # Refused while no secondary has caught up: then nothing happens.
                with contextlib.suppress(ServerNotReady):
                    await self.clusters.members.step_down()
