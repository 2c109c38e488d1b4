"""`python -m kb_local.search_node --listen 127.0.0.1:27018 --mongod 127.0.0.1:27017`."""

import argparse
import asyncio
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import uvloop

from kb_local.search_node.cancellation import keep_cancellations

if TYPE_CHECKING:
    from kb_local.search_node.server import SearchNode

log = logging.getLogger("kb_local.search_node")

_COLLECT_AFTER: Final = 10_000
"""Number of allocations after which Python collects garbage; with the default of 700, it finds almost none."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; return 0 then, 2 for an unusable address, 1 if the node failed."""
    parsed = _parse(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout)
    gc.set_threshold(_COLLECT_AFTER, *gc.get_threshold()[1:])
    # Before NumPy is imported: one search is small, and a pool of threads would take the cores from mongod.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        # A client connection takes two files.
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    keep_cancellations()
    try:
        # It forwards most of what comes, which takes two thirds of the CPU that it takes in asyncio's own loop.
        return uvloop.run(_serve(parsed))
    except (OSError, ValueError) as error:
        print(f"search node: {error}", file=sys.stderr)
        return 2


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m kb_local.search_node",
        description="Adds Atlas search to a member of a replica set, on one machine.",
    )
    parser.add_argument("--listen", type=_address, required=True, metavar="HOST:PORT", help="a loopback address")
    parser.add_argument(
        "--mongod", type=_address, required=True, metavar="HOST:PORT", help="the member of a replica set behind it"
    )
    parser.add_argument(
        "--sibling",
        type=_sibling,
        action="append",
        default=[],
        metavar="HOST:PORT=HOST:PORT",
        help="another member, and the node in front of it; once for each of them",
    )
    parser.add_argument("--lag", type=_milliseconds, default=0, metavar="MS", help="age at which a change is found")
    parser.add_argument(
        "--refresh",
        type=_milliseconds,
        metavar="MS",
        help="mean time between refreshes, which may cut a transaction (a quarter of the lag)",
    )
    parser.add_argument("--build-delay", type=_milliseconds, default=0, metavar="MS", help="least time of a build")
    parser.add_argument(
        "--status-delay",
        type=_milliseconds,
        default=0,
        metavar="MS",
        help="time between two publications of the statuses of indexes; 30000 on self-managed MongoDB (0: at once)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the refreshes' random times and cuts")
    return parser.parse_args(arguments)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return ("127.0.0.1" if host == "localhost" else host.strip("[]"), int(port))


def _sibling(text: str) -> tuple[str, str]:
    member, _, node = text.partition("=")
    for address in (member, node):
        _address(address)
    return (member, node)


def _milliseconds(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of milliseconds")
    return int(text)


async def _serve(parsed: argparse.Namespace) -> int:
    # Delayed: it imports NumPy.
    from kb_local.search_node.refresh import Delays
    from kb_local.search_node.server import serve

    refresh_ms = parsed.lag // 4 if parsed.refresh is None else parsed.refresh
    delays = Delays(
        lag_s=parsed.lag / 1000,
        refresh_s=refresh_ms / 1000,
        build_s=parsed.build_delay / 1000,
        status_s=parsed.status_delay / 1000,
        seed=parsed.seed,
    )
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    log.info("search_node.starting loopback_only=true authentication=none tls=none")
    async with serve(parsed.listen, parsed.mongod, siblings=dict(parsed.sibling), delays=delays) as node:
        node.failed.add_done_callback(lambda _: stopped.set())
        announced = asyncio.create_task(_announce(node, parsed.mongod))
        await stopped.wait()
        announced.cancel()
        if node.failed.done():
            log.error("search_node.failed error=%s", type(node.failed.exception()).__name__)
            return 1
    log.info("search_node.stopped")
    return 0


async def _announce(node: "SearchNode", mongod: tuple[str, int]) -> None:
    await node.wait_ready()
    log.info("search_node.ready listen=%s:%d mongod=%s:%d", *node.address, *mongod)


if __name__ == "__main__":
    sys.exit(main())
