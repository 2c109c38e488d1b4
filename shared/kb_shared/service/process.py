"""Runs a service process. After SIGTERM or SIGINT it finishes its current work and exits with 0."""

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
"""Number of new objects after which Python collects garbage. With its default of 700 it finds little garbage and takes
4 % of an indexer's CPU."""
_RETRY_S: Final = 1.0
_CANCEL_GRACE_S: Final = 2.0

log = structlog.get_logger()


class Stopped(Exception):
    """Stop of a process before its start was complete."""


def run(serve: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run `serve` in a new event loop, with an event that is set when the process should stop."""

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_log_unhandled)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        with suppress(Stopped):
            await serve(stop)

    # Imported objects live as long as the process. Scanning them for garbage would stop the event loop for 0.3 s.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, *gc.get_threshold()[1:])
    try:
        # asyncio's loop in C saves a twelfth of the CPU of a search.
        uvloop.run(main())
    except Exception as error:
        if (setting := _misconfigured(error)) is not None:
            log.error("process.misconfigured", reason=str(setting))  # noqa: TRY400  # the traceback does not help
        else:
            # Not with Python's own traceback: error messages may quote documents.
            log.exception("process.failed")
        sys.exit(1)


def _misconfigured(error: Exception) -> Misconfigured | None:
    """Find the invalid setting that ended the process, in an exception group, too."""
    if isinstance(error, ExceptionGroup):
        return next((found for each in error.exceptions if (found := _misconfigured(each)) is not None), None)
    return error if isinstance(error, Misconfigured) else None


def _log_unhandled(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log as asyncio does, without the `repr` of what failed."""
    error = context.get("exception")
    log.error("loop.unhandled", what=context["message"].partition("\n")[0], exc_info=error)


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Wait for `seconds`, but not longer than until `stop`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()


async def retry_until_done(
    stop: asyncio.Event, action: Callable[[], Awaitable[object]], *, note: Callable[[str], None] = lambda _: None
) -> bool:
    """Retry `action` until it succeeds; return False if `stop` came first.

    It is retried after TransientError and InfrastructureNotReady.

    Args:
        stop: ends the retries at once, even during a call of `action`.
        action: may be cancelled at any point.
        note: called with the reason for each retry.
    """
    limit = LogLimit()
    while not stop.is_set():
        try:
            if await _finish_before(stop, action):
                return True
        except (TransientError, InfrastructureNotReady) as error:
            reason = str(error)
            note(reason)
            if (left_out := limit.admit(reason)) is not None:
                log.warning("start.waiting", reason=reason, left_out=left_out)
            await pause(stop, _RETRY_S)
    return False


async def _finish_before(stop: asyncio.Event, action: Callable[[], Awaitable[object]]) -> bool:
    """Run `action`; return False if it was not finished when `stop` came."""
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
