"""A replica set of several mongods on this machine, whose members can be killed, frozen and stepped down."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kb_local.errors import ServerNotReady
from kb_local.mongo_command import run_command
from kb_local.mongod import REPLICA_SET, Mongod
from kb_local.ports import LOOPBACK, free_port
from kb_local.server import accepts_connections, poll_until
from kb_shared.concurrency.concurrent_tasks import run_all, run_all_or_cancel

ELECTION_TIMEOUT_MS = 10_000
"""MongoDB's default: the time without a primary after a kill is what a production deployment would see."""
HEALTHY_WITHIN_S = 120.0
ALREADY_INITIALIZED = 23


class ReplicaSet:
    """Members are `Mongod` servers: `kill`, `pause`, `resume` and `start` each of them as any other server.

    Data outlives the processes. What a test has done to the members ends with `heal`. An asynchronous context manager:
    healthy when entered, and with no process left when it is left.
    """

    def __init__(
        self,
        folder: Path,
        *,
        size: int = 3,
        election_timeout_ms: int = ELECTION_TIMEOUT_MS,
        cache_gb: float = 0.25,
        transaction_lifetime_s: int = 15,
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        """Describe the set.

        Args:
            folder: gets a folder of data and a log for each member.
            size: number of members.
            election_timeout_ms: how long the secondaries miss a primary before they elect another.
            cache_gb: of WiredTiger, for each member.
            transaction_lifetime_s: how long the locks of a transaction outlive a client that was killed.
            parameters: further `--setParameter` values of each member.
        """
        self.members: Sequence[Mongod] = tuple(
            Mongod(
                folder / f"mongod-{number}",
                port=free_port(),
                log=folder / f"mongod-{number}.log",
                name=f"mongod-{number}",
                alone=False,
                cache_gb=cache_gb,
                transaction_lifetime_s=transaction_lifetime_s,
                parameters=parameters,
            )
            for number in range(1, size + 1)
        )
        self._election_timeout_ms = election_timeout_ms

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def addresses(self) -> list[str]:
        """Return `host:port` of each member."""
        return [member.address for member in self.members]

    @property
    def uri(self) -> str:
        """Return the set itself, without search."""
        return f"mongodb://{','.join(self.addresses)}/?replicaSet={REPLICA_SET}"

    def member(self, name: str) -> Mongod:
        """Return a member by its name, such as `mongod-2`."""
        return next(member for member in self.members if member.name == name)

    async def start(self) -> None:
        """Launch all members, initiate the set if it is new, and wait until it is healthy.

        Raises:
            ServerDied, ServerNotReady: with the end of a log.
        """
        for member in self.members:
            member.launch()
        await self._until(self._all_accept_connections, what="connections of all members")
        await self._initiate()
        await self.heal()

    async def stop(self) -> None:
        """Stop all members at once, without a step-down."""
        await run_all(member.kill() for member in self.members)

    async def heal(self) -> None:
        """Resume and start whatever member needs it; return once all replicate what the primary writes."""
        for member in self.members:
            if member.running:
                member.resume()
            else:
                member.launch()
        await self._until(self._replicates_to_all, what="a primary whose writes reach all members")
        for member in self.members:
            await member.wait_ready()

    async def primary(self) -> Mongod:
        """Return the member that takes writes, once there is one.

        Raises:
            ServerNotReady: there was none for two minutes.
        """
        found: list[Mongod] = []

        async def elected() -> bool:
            found[:] = [primary] if (primary := await self.find_primary()) else []
            return bool(found)

        await self._until(elected, what="a primary")
        return found[0]

    async def find_primary(self) -> Mongod | None:
        """Return the member that takes writes now, if there is one.

        Of two that both think so, as after a freeze, it is the one that was elected later.
        """
        answers = await run_all_or_cancel(map(_hello, self.members))
        writable = [
            (answer["electionId"], member)
            for member, answer in zip(self.members, answers, strict=True)
            if answer.get("isWritablePrimary")
        ]
        return max(writable, key=lambda pair: pair[0])[1] if writable else None

    async def secondaries(self) -> list[Mongod]:
        """Return all other members, in whatever state they are."""
        primary = await self.primary()
        return [member for member in self.members if member is not primary]

    async def step_down(self) -> Mongod:
        """Have the primary hand over to a secondary that has all its writes; return the former primary.

        Raises:
            ServerNotReady: no secondary has caught up.
        """
        primary = await self.primary()
        for member in self.members:
            if member is not primary and await member.is_ready():
                # One that has stepped down a moment ago may be elected again.
                await _run_command(member, {"replSetFreeze": 0})
        answer = await _run_command(primary, {"replSetStepDown": 60, "secondaryCatchUpPeriodSecs": 10})
        if not answer["ok"]:
            raise ServerNotReady(f"{primary.name} stays primary: {answer['errmsg']}", remedy="heal the set before")
        return primary

    async def _initiate(self) -> None:
        config = {
            "_id": REPLICA_SET,
            "members": [{"_id": number, "host": address} for number, address in enumerate(self.addresses)],
            # With chaining a secondary may follow another one. If that one is frozen, both stop, and no write is
            # acknowledged before the first one looks for another source: 19 s were seen.
            "settings": {"electionTimeoutMillis": self._election_timeout_ms, "chainingAllowed": False},
        }
        answer = await _run_command(self.members[0], {"replSetInitiate": config})
        if not answer["ok"] and answer["code"] != ALREADY_INITIALIZED:
            raise ServerNotReady(f"the replica set was refused: {answer['errmsg']}", remedy="use an empty folder")
        if answer["ok"]:
            # Without replSetStepUp, an election begins only after the election timeout.
            await self._until(self._first_steps_up, what="the first election")

    async def _first_steps_up(self) -> bool:
        return bool((await _run_command(self.members[0], {"replSetStepUp": 1}))["ok"])

    async def _all_accept_connections(self) -> bool:
        return all([await accepts_connections(LOOPBACK, member.port) for member in self.members])

    async def _replicates_to_all(self) -> bool:
        note = {"appendOplogNote": 1, "data": {"healthy": True}}
        everywhere = {"w": len(self.members), "wtimeout": 1000}
        for member in self.members:
            try:
                answer = await run_command(LOOPBACK, member.port, command={**note, "writeConcern": everywhere})
            except OSError:
                continue
            if answer["ok"] and "writeConcernError" not in answer:
                return True
        return False

    async def _until(self, condition: Callable[[], Awaitable[bool]], *, what: str) -> None:
        if not await poll_until(condition, timeout_s=HEALTHY_WITHIN_S):
            logs = "\n".join(f"{member.name}:\n{member.log_tail()}" for member in self.members)
            raise ServerNotReady(f"the replica set has no {what}. The ends of its logs:\n{logs}", remedy="try again")


async def _hello(member: Mongod) -> dict[str, Any]:
    """Return what a member says of itself; nothing when it does not answer."""
    if not member.running:
        return {}
    try:
        return await run_command(LOOPBACK, member.port, command={"hello": 1}, timeout_s=0.5)
    except OSError:
        return {}


async def _run_command(member: Mongod, command: dict[str, Any]) -> dict[str, Any]:
    return await run_command(LOOPBACK, member.port, command=command, timeout_s=HEALTHY_WITHIN_S)
