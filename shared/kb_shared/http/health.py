"""Serves `/healthz`, `/readyz` and `/metrics`, without a key and without data of organizations."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from kb_shared.http import server
from kb_shared.http.request_context import RequestContext
from kb_shared.mongo.database import Database
from kb_shared.settings import ServerSettings

Ready = Callable[[], Awaitable[str | None]]
"""Check that returns why the service can't work now, or None if it can."""

READY_TIMEOUT_S = 3.0


class Readiness:
    """Says why a service is not ready: what its start waits for, and later the result of its checks."""

    def __init__(self) -> None:
        self._waits_for = "it has just been started"
        self._checks: Sequence[Ready] | None = None

    def wait_for(self, reason: str) -> None:
        """Record what the start waits for."""
        self._waits_for = reason

    def started(self, *checks: Ready) -> None:
        """Run `checks` from now on; the first reason counts."""
        self._checks = checks

    async def why_not_ready(self) -> str | None:
        if self._checks is None:
            return f"starting: {self._waits_for}"
        for check in self._checks:
            if (reason := await check()) is not None:
                return reason
        return None


def mongodb_answers(database: Database) -> Ready:
    """Create the check that the primary answers."""

    async def ready() -> str | None:
        await database.command("ping")
        return None

    return ready


def health_routes(ready: Ready) -> Sequence[BaseRoute]:
    """Create the three routes.

    Args:
        ready: check of `/readyz`; a slow or failing check means not ready.
    """

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        reason = await _why_not_ready(ready)
        if reason is None:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "not ready", "reason": reason}, 503)

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]


async def _why_not_ready(ready: Ready) -> str | None:
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            return await ready()
    except TimeoutError:
        return "the check took too long"
    except Exception as error:  # noqa: BLE001  # any error means "not ready", without its text
        return type(error).__name__


async def serve_health_during(settings: ServerSettings, ready: Ready, work: Awaitable[None]) -> None:
    """Run `work`, all that a service without routes does, and serve health meanwhile."""
    ended = asyncio.Event()
    async with asyncio.TaskGroup() as parts:
        parts.create_task(serve_health(settings, ready, ended))
        await work
        ended.set()


async def serve_health(settings: ServerSettings, ready: Ready, stop: asyncio.Event) -> None:
    """Serve nothing but health, for a service without routes, until `stop` is set."""
    context = Middleware(RequestContext, body_timeout_s=settings.http_body_timeout_s)
    await server.run(Starlette(routes=health_routes(ready), middleware=[context]), settings, stop)
