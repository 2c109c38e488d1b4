"""Runs uvicorn in the event loop of the service, which handles signals; a stop lets requests finish."""

import asyncio
import contextlib
import math
import resource
import socket
from collections.abc import Iterator
from functools import partial
from typing import Final

import structlog
import uvicorn
from starlette.types import ASGIApp

from kb_shared.http.connection_limit import SURPLUS, ConnectionLimit
from kb_shared.http.keep_alive import KEEP_ALIVE_S
from kb_shared.http.protocol import Protocol
from kb_shared.settings import CommonSettings

GRACE_S: Final = 10.0
"""Seconds that requests have to finish after a stop, where a service does not say otherwise."""
OTHER_OPEN_FILES: Final = 200
"""Number of files for other purposes: connections to MongoDB, Kafka and providers."""

_log = structlog.get_logger()


class _UvicornServer(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the service, which stops its other work too."""
        yield


async def run(app: ASGIApp, settings: CommonSettings, stop: asyncio.Event, *, grace_s: float = GRACE_S) -> None:
    """Serve `app` on `settings.http_host` and `http_port` (0: any free one) until `stop` is set.

    Args:
        app: answers all requests.
        settings: of the server.
        stop: closes the listener; requests that have begun may finish.
        grace_s: how long they may take after that, rounded up to a second; then they are cancelled.

    Raises:
        OSError: the address is in use.
    """
    listener = _listen(settings.http_host, settings.http_port)
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
    server = _UvicornServer(config)
    _log.info("http.listening", port=listener.getsockname()[1])
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
    finally:
        stopping.cancel()
        serving.cancel()
        listener.close()


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.create_server((host, port), backlog=2048)
    # asyncio turns Nagle's algorithm off only where it sees that a socket is TCP's, which `create_server` leaves out:
    # without this each small answer waits 40 ms for the client's acknowledgement.
    return socket.socket(fileno=listener.detach())


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
