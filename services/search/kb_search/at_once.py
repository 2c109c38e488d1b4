import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def all_of(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Do all at the same time and return what they return, in order; raise the first failure when all have ended.

    Unlike a task group, which hides the error in a group, and unlike `gather`, which leaves the others running.
    """
    failures: list[Exception] = []

    async def ended(work: Coroutine[Any, Any, T]) -> list[T]:
        try:
            return [await work]
        except Exception as error:  # noqa: BLE001  # raised below
            failures.append(error)
            return []

    values = await asyncio.gather(*(ended(work) for work in works))
    if failures:
        raise failures[0]
    return [value for one in values for value in one]
