"""Keeps cancellations that Python 3.11 loses."""

import asyncio
import sys
from collections.abc import Awaitable
from typing import TypeVar

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
    async with asyncio.timeout(timeout):
        return await awaitable
