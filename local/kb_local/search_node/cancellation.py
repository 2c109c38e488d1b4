"""Keeps cancellations that Python 3.11 loses."""

import asyncio
import sys
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


def keep_cancellations() -> None:
    """Give this process the `asyncio.wait_for` of Python 3.12.

    Before 3.12 it drops a cancellation that comes together with the result. PyMongo sends every command that has a
    deadline through it: one of 350 nodes did not end after SIGTERM.
    """
    if sys.version_info < (3, 12):
        setattr(asyncio, "wait_for", _wait_for)  # noqa: B010  # its type promises more kinds of arguments than are used


async def _wait_for(awaitable: Awaitable[T], timeout: float | None) -> T:  # noqa: ASYNC109  # the signature of asyncio
    async with asyncio.timeout(timeout):
        return await awaitable
