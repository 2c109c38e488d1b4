"""How a service process begins, waits and ends: SIGTERM and SIGINT ask it to finish what it is at; it exits with 0."""

import asyncio
import gc
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import structlog
import uvloop

from kb_shared.errors import InfrastructureNotReady, Misconfigured, TransientError
from kb_shared.observability.log_limit import LogLimit

_COLLECT_AFTER: Final = 10_000
"""New objects after which Python looks for garbage. After its own 700 it finds little else than what is under way, and
takes 4 % of an indexer's CPU."""
_RETRY_S: Final = 1.0
_CANCEL_GRACE_S: Final = 2.0

log = structlog.get_logger()


class Stopped(Exception):
    """Asked to stop before there was anything to stop."""


def run(serve: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run `serve` in a new event loop; the event it is given is set when the process should stop."""

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_log_unhandled)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        with suppress(Stopped):
            await serve(stop)

    # What is imported lives as long as the process. Going through it for garbage would stop everything for 0.3 s.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, *gc.get_threshold()[1:])
    try:
        # In C what asyncio does in Python: a twelfth of the CPU of a search.
        uvloop.run(main())
    except Exception as error:
        if (setting := _misconfigured(error)) is not None:
            log.error("process.misconfigured", reason=str(setting))  # noqa: TRY400  # the reason is all that helps
        else:
            # Not by Python's own traceback: messages of errors may quote documents.
            log.exception("process.failed")
        sys.exit(1)


def _misconfigured(error: Exception) -> Misconfigured | None:
    """Return the setting that the process ended by, also if parts that ran together ended with it."""
    if isinstance(error, ExceptionGroup):
        return next((found for each in error.exceptions if (found := _misconfigured(each)) is not None), None)
    return error if isinstance(error, Misconfigured) else None


def _log_unhandled(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """As asyncio does, without the `repr` of what failed."""
    error = context.get("exception")
    log.error("loop.unhandled", what=context["message"].partition("\n")[0], exc_info=error)


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Wait, but not longer than until `stop`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()


async def patiently(
    stop: asyncio.Event, action: Callable[[], Awaitable[object]], *, note: Callable[[str], None] = lambda _: None
) -> bool:
    """Do `action`, again and again while what it needs is away or set up wrongly; False if `stop` came first.

    Args:
        stop: ends it at once, also while `action` waits for an answer.
        action: may be cancelled at any point.
        note: called with what it waits for.
    """
    limit = LogLimit()
    while not stop.is_set():
        try:
            if await _done_before(stop, action):
                return True
        except (TransientError, InfrastructureNotReady) as error:
            reason = str(error)
            note(reason)
            if (left_out := limit.admit(reason)) is not None:
                log.warning("start.waiting", reason=reason, left_out=left_out)
            await pause(stop, _RETRY_S)
    return False


async def _done_before(stop: asyncio.Event, action: Callable[[], Awaitable[object]]) -> bool:
    """Do `action`, and return whether it was done when `stop` came."""
    acting, stopping = asyncio.ensure_future(action()), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({acting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if not acting.done():
            acting.cancel()
            await asyncio.wait({acting}, timeout=_CANCEL_GRACE_S)
    if not acting.done() or acting.cancelled():
        return False
    acting.result()
    return True
