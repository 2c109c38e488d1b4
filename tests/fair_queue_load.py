"""Holds the turns of a fair queue, so that further requests of an organization wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kb_shared.concurrency.fair_queue import FairQueue
from tests.waiting import until


@asynccontextmanager
async def hold_turns(queue: FairQueue, organization_id: str, *, number: int = 1) -> AsyncIterator[None]:
    """Have as many requests of an organization processed as may be, beside one of another organization."""
    end = asyncio.Event()
    begun = 0

    async def request(whose: str) -> None:
        nonlocal begun
        async with queue.take_turn(whose):
            begun += 1
            await end.wait()

    # In tasks of their own: what the test itself asks for in this process is no part of them.
    requests = [asyncio.create_task(request(whose)) for whose in ("another-organization", *[organization_id] * number)]
    await until(lambda: begun == number + 1)
    try:
        yield
    finally:
        end.set()
        await asyncio.gather(*requests)


def has_waiting(queue: FairQueue, organization_id: str) -> bool:
    """Say whether a request of the organization waits for its turn."""
    organization = queue._organizations.get(organization_id)
    return organization is not None and bool(organization.waiting)


def has_active(queue: FairQueue, organization_id: str) -> bool:
    """Say whether a request of the organization is processed."""
    organization = queue._organizations.get(organization_id)
    return organization is not None and bool(organization.active)
