import asyncio
import signal
import socket

import uvicorn
import uvloop

from kb_shared.http.uvicorn_server import serve


def serve_until_signal(config: uvicorn.Config, listener: socket.socket) -> None:
    """Serve on `listener` until SIGTERM or SIGINT, and return."""
    uvloop.run(_serve(config, listener))


async def _serve(config: uvicorn.Config, listener: socket.socket) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await serve(config, listener, stop)
