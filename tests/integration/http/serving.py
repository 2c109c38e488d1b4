"""A server of ours in this process, on a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp

from kb_local.ports import free_port
from kb_shared.http import server
from kb_shared.settings import CommonSettings
from tests.waiting import DEADLINE_S, until

HOST = "127.0.0.1"


@asynccontextmanager
async def serving(app: ASGIApp, **settings: Any) -> AsyncIterator[str]:
    """Serve `app` until the block ends, and give its URL."""
    made = CommonSettings(http_host=HOST, http_port=free_port(), **settings)
    stop = asyncio.Event()
    running = asyncio.ensure_future(server.run(app, made, stop))

    async def listens() -> bool:
        try:
            _, writer = await asyncio.open_connection(HOST, made.http_port)
        except ConnectionError:
            return False
        writer.close()
        await writer.wait_closed()
        return True

    await until(listens)
    yield f"http://{HOST}:{made.http_port}"
    stop.set()
    async with asyncio.timeout(DEADLINE_S):
        await running
