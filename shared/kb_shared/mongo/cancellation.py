"""Keeps cancellations that Python 3.11 loses."""

import asyncio
import sys
from collections.abc import Awaitable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_wait_for_of_python = asyncio.wait_for


def keep_cancellations() -> None:
    """Give this process the `asyncio.wait_for` of Python 3.12. Calling it again changes nothing.

    Before 3.12 it drops a cancellation that comes together with the result. The driver sends every command that has a
    deadline through it: one of a hundred cancelled tasks went on, and a process did not end.
    """
    if sys.version_info < (3, 12):
        setattr(asyncio, "wait_for", _wait_for)  # noqa: B010  # its type promises more kinds of arguments than are used


async def _wait_for(awaitable: Awaitable[T], timeout: float | None) -> T:  # noqa: ASYNC109  # the signature of asyncio
    if timeout is not None and timeout <= 0:
        return await _wait_for_of_python(awaitable, timeout)
    if isinstance(awaitable, Coroutine):
        # The driver sends nearly every command without having to wait, and a timer for each takes longer than that.
        try:
            waits_for = awaitable.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        awaitable = _Begun(awaitable, waits_for)
    async with asyncio.timeout(timeout):
        return await awaitable


class _Begun(Generic[T]):
    """A coroutine that has been begun, to be awaited to its end."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], waits_for: object) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        waits_for = self._waits_for
        while True:
            try:
                sent = yield waits_for
            except BaseException as error:  # noqa: BLE001  # whatever it is, the coroutine gets it
                go_on = partial(self._coroutine.throw, error)
            else:
                go_on = partial(self._coroutine.send, sent)
            try:
                waits_for = go_on()
            except StopIteration as end:
                result: T = end.value
                return result
