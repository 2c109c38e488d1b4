"""Lease of the life cycle of a KB, which changes and drops search indexes, too."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final
from uuid import uuid4

from kb_shared.mongo import leases
from kb_shared.mongo.database import Database

LEASE: Final = timedelta(seconds=30)


def build_lease_name(kb_id: str) -> str:
    return f"kb/{kb_id}"


@asynccontextmanager
async def index_lease(database: Database, kb_id: str) -> AsyncIterator[bool]:
    """Hold the lease in the block; yield False if another process has it."""
    name, owner = build_lease_name(kb_id), str(uuid4())
    held = await leases.acquire(database, name, owner=owner, length=LEASE)
    try:
        yield held
    finally:
        if held:
            await leases.release(database, name, owner=owner)
