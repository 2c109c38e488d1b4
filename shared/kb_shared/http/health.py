"""`/healthz`, `/readyz` and `/metrics`: no key needed, and nothing of tenants told."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from kb_shared.http import server
from kb_shared.settings import CommonSettings

Ready = Callable[[], Awaitable[str | None]]
"""Says why the service can't work now, or None if it can."""

READY_TIMEOUT_S = 3.0


def health_routes(ready: Ready) -> Sequence[BaseRoute]:
    """The three routes.

    Args:
        ready: asked by `/readyz`; slow or failing counts as not ready.
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
    except Exception as error:  # noqa: BLE001  # whatever it is, the answer is "not ready", with no text of it
        return type(error).__name__


async def serve_health(settings: CommonSettings, ready: Ready, stop: asyncio.Event) -> None:
    """Serve nothing but health, for a service without routes, until `stop` is set."""
    await server.run(Starlette(routes=health_routes(ready)), settings, stop)
