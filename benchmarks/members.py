"""The MongoDB of a benchmark: a single member, or a replica set of several on this machine."""

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kb_local.mongod import check_mongod, mongod_binary
from kb_local.replica_set import ReplicaSet


def add_members_option(parser: argparse.ArgumentParser) -> None:
    """Add `--members` to the options of a benchmark."""
    parser.add_argument(
        "--members", type=int, default=1, help="of the replica set, each behind its own search node; 3 as in production"
    )


@asynccontextmanager
async def mongo_uri(folder: Path, members: int) -> AsyncIterator[str | None]:
    """Run a replica set and give its URI; None for one member, which the stack launches itself."""
    if members == 1:
        yield None
        return
    await check_mongod(mongod_binary())
    async with ReplicaSet(folder / "replica-set", size=members) as replica_set:
        yield replica_set.uri
