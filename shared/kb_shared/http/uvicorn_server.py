"""Runs uvicorn in the event loop of the caller, who handles signals; a stop lets requests finish."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Final

import uvicorn

_TICK_S: Final = 1.0


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, stop: asyncio.Event) -> None:
        super().__init__(config)
        self._stop = stop

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process, which stops its other work too."""
        yield

    async def main_loop(self) -> None:
        """Wait for the stop, and renew the `Date` header once a second.

        uvicorn wakes up ten times a second for this, which is a large part of the CPU of an idle process.
        """
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._stop.wait()
            self.should_exit = self._stop.is_set()


async def serve(config: uvicorn.Config, listener: socket.socket, stop: asyncio.Event) -> None:
    """Serve on `listener` until `stop`, then close it; requests that have begun may finish as `config` says."""
    try:
        await _Server(config, stop).serve(sockets=[listener])
    finally:
        listener.close()


def listen(host: str, port: int) -> socket.socket:
    """Return a listener on an address (port 0: any free one). Raises OSError if the address is in use."""
    listener = socket.create_server((host, port), backlog=2048)
    # asyncio turns Nagle's algorithm off only where it sees that a socket is TCP's, which `create_server` leaves out:
    # without this each small answer waits 40 ms for the client's acknowledgement.
    return socket.socket(fileno=listener.detach())
