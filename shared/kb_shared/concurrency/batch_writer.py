"""Batches writes: what is to be written while a write runs is written together by the next one."""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from kb_shared.concurrency.batch_loader import BatchLoader
from kb_shared.concurrency.concurrent_tasks import run_all

Item = TypeVar("Item", bound=Hashable)


class BatchWriter(Generic[Item]):
    """Turns a write of many items into one of a single item. An item that can't be written fails alone."""

    def __init__(self, write: Callable[[Sequence[Item]], Awaitable[None]]) -> None:
        """Batch the calls of `write`, which is idempotent: after a failure each item of a batch is written alone."""
        self._write = write
        self._failures: BatchLoader[Item, Exception] = BatchLoader(self._write_batch)

    async def __call__(self, item: Item) -> None:
        """Return once the item is written."""
        if (failure := await self._failures(item)) is not None:
            raise failure

    async def _write_batch(self, items: Sequence[Item]) -> Mapping[Item, Exception]:
        try:
            await self._write(items)
        except Exception:
            if len(items) == 1:
                raise
        else:
            return {}
        failures = await run_all(map(self._find_failure, items))
        return {item: failure for item, failure in zip(items, failures, strict=True) if failure is not None}

    async def _find_failure(self, item: Item) -> Exception | None:
        try:
            await self._write([item])
        except Exception as error:  # noqa: BLE001  # it belongs to the caller
            return error
        return None
