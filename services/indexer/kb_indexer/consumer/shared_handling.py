"""Handles items of one key together that come at the same moment, in one call for all of them."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item", bound=Hashable)


class SharedHandling(Generic[Key, Item]):
    """Turns calls with one item each into calls with all items of a key.

    Each call has its own outcome. A caller that is cancelled does not disturb the others.
    """

    def __init__(self, handle: Callable[[Sequence[Item]], Awaitable[Mapping[Item, Exception]]]) -> None:
        """Share calls of `handle`, which returns the failures of single items; what it raises is that of all."""
        self._handle = handle
        self._waiting: dict[Key, list[tuple[Item, asyncio.Future[None]]]] = {}
        self._contexts: dict[Key, contextvars.Context] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, key: Key, item: Item) -> None:
        """Return once the item is handled; raise its failure."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[None] = loop.create_future()
        if key not in self._waiting:
            self._waiting[key] = []
            # After the callers that are about to come in this turn of the event loop.
            loop.call_soon(self._begin, key)
        self._waiting[key].append((item, outcome))
        # What happens belongs to the trace of the newest item.
        self._contexts[key] = contextvars.copy_context()
        # Not awaited itself: a cancellation would cancel it for the handling, too.
        await asyncio.wait([outcome])
        outcome.result()

    def _begin(self, key: Key) -> None:
        task = asyncio.create_task(self._run(self._waiting.pop(key)), context=self._contexts.pop(key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, waiting: Sequence[tuple[Item, asyncio.Future[None]]]) -> None:
        items = [item for item, _ in waiting]
        try:
            failures = await self._handle(items)
        except asyncio.CancelledError:
            # Of the handler itself or at the end of the process: no caller may wait for ever.
            for _, outcome in waiting:
                outcome.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # it belongs to the callers
            failures = dict.fromkeys(items, error)
        for item, outcome in waiting:
            if (failure := failures.get(item)) is None:
                outcome.set_result(None)
            else:
                outcome.set_exception(failure)
                # Retrieved, so that asyncio does not log it if the caller has left.
                outcome.exception()
