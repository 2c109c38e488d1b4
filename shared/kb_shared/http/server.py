"""Serves the HTTP routes of a service."""

import asyncio
import math
import resource
from functools import partial
from typing import Final

import structlog
import uvicorn
from starlette.types import ASGIApp

from kb_shared.http.connection_limit import SURPLUS, ConnectionLimit
from kb_shared.http.keep_alive import KEEP_ALIVE_S
from kb_shared.http.protocol import Protocol
from kb_shared.http.uvicorn_server import listen, serve
from kb_shared.settings import ServerSettings

GRACE_S: Final = 10.0
"""Seconds that requests have to finish after a stop, where a service does not say otherwise."""
OTHER_OPEN_FILES: Final = 200
"""Number of files for other purposes: connections to MongoDB, Kafka and providers."""

_log = structlog.get_logger()


async def run(app: ASGIApp, settings: ServerSettings, stop: asyncio.Event, *, grace_s: float = GRACE_S) -> None:
    """Serve `app` on `settings.http_host` and `http_port` (0: any free one) until `stop` is set.

    Args:
        app: answers all requests.
        settings: of the server.
        stop: closes the listener; requests that have begun may finish.
        grace_s: how long they may take after that, rounded up to a second; then they are cancelled.

    Raises:
        OSError: the address is in use.
    """
    listener = listen(settings.http_host, settings.http_port)
    connections = ConnectionLimit(limit=_possible_connections(settings.http_max_connections))
    config = uvicorn.Config(
        app,
        http=partial(  # type: ignore[arg-type]  # uvicorn only calls it
            Protocol, connections=connections, head_timeout_s=settings.http_head_timeout_s
        ),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        # Nothing depends on the address of the client.
        proxy_headers=False,
        timeout_graceful_shutdown=math.ceil(grace_s),
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    _log.info("http.listening", port=listener.getsockname()[1])
    await serve(config, listener, stop)


def _possible_connections(configured: int) -> int:
    """Return the limit of connections at which file descriptors suffice for all files."""
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if open_files == resource.RLIM_INFINITY:
        return configured
    possible = max(1, min(configured, int((open_files - OTHER_OPEN_FILES) / (1 + SURPLUS))))
    if possible < configured:
        _log.warning(
            "http.connections_limited",
            connections=possible,
            configured=configured,
            remedy="allow this process more open files (ulimit -n), or lower KB_HTTP_MAX_CONNECTIONS",
        )
    return possible
