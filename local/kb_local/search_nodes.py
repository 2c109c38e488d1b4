"""The search nodes of one deployment: one in front of each member, as a mongot runs beside each mongod."""

from collections.abc import Sequence
from pathlib import Path

from kb_local.ports import LOOPBACK, Ports
from kb_local.python_server import SearchNodeProcess
from kb_shared.concurrency.concurrent_tasks import run_all, run_all_or_cancel

NAME = "search-node"


class SearchNodes:
    """Nodes that know of each other: a client that finds one finds all, whichever member is the primary."""

    def __init__(
        self,
        members: Sequence[str],
        *,
        set_name: str,
        logs: Path,
        ports: Ports | None = None,
        lags_ms: Sequence[int] = (0,),
        build_delay_ms: int = 0,
    ) -> None:
        """Describe the nodes.

        Args:
            members: `host:port` of each member that holds data, as the replica set's configuration has it.
            set_name: of the replica set.
            logs: folder of their logs.
            ports: hands out their ports.
            lags_ms: the age at which a change becomes searchable, for each node; a single one is that of all.
            build_delay_ms: how long an index stays in the state BUILDING.
        """
        ports = ports or Ports()
        names = [NAME] if len(members) == 1 else [f"{NAME}-{number}" for number in range(1, len(members) + 1)]
        lags_ms = lags_ms if len(lags_ms) > 1 else [*lags_ms] * len(members)
        address_of = {member: f"{LOOPBACK}:{ports.reserve(name)}" for member, name in zip(members, names, strict=True)}
        self._set_name = set_name
        self.nodes: Sequence[SearchNodeProcess] = tuple(
            SearchNodeProcess(
                mongod=member,
                siblings={other: address for other, address in address_of.items() if other != member},
                port=ports.reserve(name),
                log=logs / f"{name}.log",
                name=name,
                lag_ms=lag_ms,
                build_delay_ms=build_delay_ms,
            )
            for member, name, lag_ms in zip(members, names, lags_ms, strict=True)
        )

    @property
    def uri(self) -> str:
        """Return the deployment with search."""
        if len(self.nodes) == 1:
            return self.nodes[0].uri
        return f"mongodb://{','.join(node.address for node in self.nodes)}/?replicaSet={self._set_name}"

    async def start(self) -> None:
        """Start those that do not run, and wait until all are ready: each needs its member.

        Raises:
            ServerDied, ServerNotReady: with the end of a log.
        """
        await run_all_or_cancel(node.start() for node in self.nodes if not node.running)

    async def stop(self) -> None:
        await run_all(node.stop() for node in self.nodes)
