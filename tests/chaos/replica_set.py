"""Three mongods that elect one of them, for what only an election can bring about."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kb_local.mongo_command import run_command
from kb_local.mongod import REPLICA_SET, Mongod, is_writable
from kb_local.ports import LOOPBACK, free_port
from kb_local.server import accepts_connections
from tests.e2e.system import until

MEMBERS = 3
ELECTION_TIMEOUT_MS = 5000
WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class ReplicaSet:
    members: Sequence[Mongod]

    @property
    def uri(self) -> str:
        addresses = ",".join(member.address for member in self.members)
        return f"mongodb://{addresses}/?replicaSet={REPLICA_SET}"

    async def primary(self) -> Mongod:
        """The member that takes writes, once there is one."""
        found: list[Mongod] = []

        async def elected() -> bool:
            found[:] = [member for member in self.members if member.running and await is_writable(member.port)]
            return bool(found)

        await until(elected, within_s=WITHIN_S, what="a primary")
        return found[0]


@asynccontextmanager
async def replica_set(folder: Path) -> AsyncIterator[ReplicaSet]:
    members = [Mongod(folder / str(n), port=free_port(), log=folder / f"{n}.log") for n in range(MEMBERS)]
    try:
        for member in members:
            member.launch()
            await until(partial(accepts_connections, LOOPBACK, member.port), within_s=WITHIN_S, what=member.address)
        await _initiate(members)
        yield ReplicaSet(members)
    finally:
        await asyncio.gather(*(member.kill() for member in members))


async def _initiate(members: Sequence[Mongod]) -> None:
    config = {
        "_id": REPLICA_SET,
        "members": [{"_id": number, "host": member.address} for number, member in enumerate(members)],
        "settings": {"electionTimeoutMillis": ELECTION_TIMEOUT_MS},
    }
    answer = await run_command(LOOPBACK, members[0].port, {"replSetInitiate": config}, timeout_s=WITHIN_S)
    assert answer["ok"], answer
