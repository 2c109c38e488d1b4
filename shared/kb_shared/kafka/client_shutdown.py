"""Closes a producer of the client library in a bounded time, even if the brokers do not answer."""

import asyncio
import time
from typing import Any, Final

import structlog
from aiokafka.errors import ProducerClosed

ABANDON_WITHIN_S: Final = 1.5
CANCEL_EVERY_S: Final = 0.3

log = structlog.get_logger()


async def shut_down_client(client: Any, *, within_s: float) -> None:
    """Let the client send its messages for `within_s`, then close it. It never sends the others.

    Takes at most `ABANDON_WITHIN_S` longer than `within_s`. Raises nothing.
    """
    stopping = asyncio.ensure_future(client.stop())
    try:
        await asyncio.wait([stopping], timeout=within_s)
    finally:
        if not stopping.done():
            try:
                await _abandon(client)
            except Exception as error:  # noqa: BLE001  # it reaches into the client library; a producer must go on
                log.warning("producer.client_not_closed", error=type(error).__name__)
            await asyncio.wait([stopping], timeout=CANCEL_EVERY_S)
            stopping.cancel()
            await asyncio.wait([stopping], timeout=CANCEL_EVERY_S)
    if stopping.done() and not stopping.cancelled() and (failure := stopping.exception()) is not None:
        log.warning("producer.client_ended_with_error", error=type(failure).__name__)


async def _abandon(client: Any) -> None:
    """Close all connections and end all tasks of the client.

    Its own `stop` waits for every broker that owes an answer, with idempotence for ever, and when it is cancelled it
    leaves a task that goes on sending.
    """
    network, sender = client.client, client._sender.sender_task  # noqa: SLF001  # public nowhere
    _close_connections(network)
    deadline = time.monotonic() + ABANDON_WITHIN_S
    while sender is not None and not sender.done() and time.monotonic() < deadline:
        # Once is not enough: the task catches the first cancellation and waits for its requests.
        sender.cancel()
        await asyncio.wait([sender], timeout=CANCEL_EVERY_S)
        # Requests may have opened connections again.
        _close_connections(network)
    _fail_batches(client._message_accumulator)  # noqa: SLF001  # public nowhere


def _fail_batches(accumulator: Any) -> None:
    """Wake the tasks that wait for room in a batch or for an acknowledgement."""
    accumulator.fail_all(ProducerClosed())
    waiting = (batch for batches in accumulator._batches.values() for batch in batches)  # noqa: SLF001  # public nowhere
    for batch in (*accumulator._pending_batches, *waiting):  # noqa: SLF001  # public nowhere
        if batch._drain_waiter.done():  # noqa: SLF001  # public nowhere
            # Often no task waits for room, and asyncio would log the exception as one that was never retrieved.
            batch._drain_waiter.exception()  # noqa: SLF001  # public nowhere


def _close_connections(network: Any) -> None:
    if network._sync_task is not None:  # noqa: SLF001  # public nowhere
        network._sync_task.cancel()  # noqa: SLF001  # public nowhere
    if network._md_update_fut is not None and not network._md_update_fut.done():  # noqa: SLF001  # public nowhere
        # Requests wait for it, and the task that would have set it is cancelled.
        network._md_update_fut.set_result(False)  # noqa: SLF001  # public nowhere
    for connection in network._conns.values():  # noqa: SLF001  # public nowhere
        if connection._writer is not None:  # noqa: SLF001  # public nowhere
            # Closing alone waits until a broker that does not read has read all that was written.
            connection._writer.transport.abort()  # noqa: SLF001  # public nowhere
        connection.close()
