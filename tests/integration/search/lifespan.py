import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI


@asynccontextmanager
async def running(app: FastAPI) -> AsyncIterator[None]:
    """The app from its start to its end, both in one task of its own: a fixture begins in one and ends in another."""
    started, ending = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        try:
            async with app.router.lifespan_context(app):
                started.set()
                await ending.wait()
        finally:
            started.set()

    life = asyncio.create_task(live())
    await started.wait()
    try:
        yield
    finally:
        ending.set()
        await life
