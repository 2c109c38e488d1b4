"""The number beside Operations in the header of each page, asked for while the page makes its own calls."""

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from kb_client import AsyncClient
from kb_client.errors import KbClientError
from kb_contracts.api.operations import OperationCounts

WAIT_S: Final = 0.1
"""Longest time that a page which is ready waits for the number; without it, the page has none."""
_STATE: Final = "header_count"


class HeaderCount:
    """A number that is asked for at most once in a request, and is not waited for longer than a page can."""

    def __init__(self) -> None:
        self._task: asyncio.Task[OperationCounts | None] | None = None

    def ask(self, api: AsyncClient) -> None:
        """Begin the call of the API, beside those that the page makes."""
        self._task = asyncio.create_task(_count(api))

    async def wait(self) -> OperationCounts | None:
        """Return the number; None if it was not asked for, may not be known, or is late."""
        if self._task is None:
            return None
        done, _ = await asyncio.wait([self._task], timeout=WAIT_S)
        return self._task.result() if done else None

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


class HeaderCounts:
    """Gives each request a `HeaderCount`, whose call ends with the request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        count = scope["state"][_STATE] = HeaderCount()
        try:
            await self._app(scope, receive, send)
        finally:
            await count.end()


def find_header_count(request: Request) -> HeaderCount:
    """Return the number of the page that answers a request."""
    count: HeaderCount = request.scope["state"][_STATE]
    return count


def ask_for_header(request: Request, api: AsyncClient) -> None:
    """Ask for the number, unless a script asks for something without a header."""
    asks_for_page = request.headers.get("sec-fetch-dest", "document") == "document"
    if asks_for_page and "hx-request" not in request.headers:
        find_header_count(request).ask(api)


async def _count(api: AsyncClient) -> OperationCounts | None:
    try:
        return await api.operations.count()
    except KbClientError:
        # The key may not read it, the API does not know it or is not there. The page says so where it matters.
        return None
