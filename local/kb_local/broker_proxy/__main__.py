"""`python -m kb_local.broker_proxy --port N --broker-port M -- COMMAND`: runs the broker and the proxy before it.

It listens once the broker does, ends it at SIGTERM, and ends with it.
"""

import argparse
import asyncio
import os
import signal
import sys
from typing import Final

from kb_local import parent_death_signal
from kb_local.broker_proxy.connections import KafkaClientConnection, RecordsNews

_LOOPBACK: Final = "127.0.0.1"
_ASK_AGAIN_S: Final = 0.005


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m kb_local.broker_proxy", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="that clients connect to")
    parser.add_argument("--broker-port", type=int, required=True, help="that the broker listens on")
    parser.add_argument("command", nargs="+", help="that runs the broker")
    options = parser.parse_args()
    status = asyncio.run(_run(options))
    if status < 0:
        # As if this process were the broker.
        os.kill(os.getpid(), -status)
    sys.exit(status)


async def _run(options: argparse.Namespace) -> int:
    """Run both until the broker ends; return its exit status, negative for a signal."""
    guarded = [sys.executable, "-I", "-S", parent_death_signal.__file__, str(os.getpid()), *options.command]
    broker = await asyncio.create_subprocess_exec(*guarded)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, broker.terminate)
    ended = asyncio.create_task(broker.wait())
    serving = asyncio.create_task(_serve(options))
    await asyncio.wait({ended, serving}, return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        # Nothing can be served, because the port is taken.
        broker.kill()
        await ended
        return 1
    serving.cancel()
    return ended.result()


async def _serve(options: argparse.Namespace) -> None:
    address = (_LOOPBACK, options.broker_port)
    while not await _accepts_connections(*address):  # noqa: ASYNC110  # another process works
        await asyncio.sleep(_ASK_AGAIN_S)
    news = RecordsNews()
    server = await asyncio.get_running_loop().create_server(
        lambda: KafkaClientConnection(address, news), _LOOPBACK, options.port
    )
    await server.serve_forever()


async def _accepts_connections(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


if __name__ == "__main__":
    main()
