"""A node whose clock and whose builds go as a test says, so that no test has to be faster than either."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from kb_local.search_node import generation
from kb_local.search_node.server import SearchNode


def let_pass(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the clock forward by which indexes are refreshed."""
    ahead = SimpleNamespace(time=lambda: time.time() + seconds, monotonic=time.monotonic)
    monkeypatch.setattr(generation, "time", ahead)


@asynccontextmanager
async def no_build_begins(node: SearchNode) -> AsyncIterator[None]:
    """Keep builds requested within the block PENDING until it ends."""
    slots = node._catalogue._builds._slots
    held = slots._value
    for _ in range(held):
        await slots.acquire()
    try:
        yield
    finally:
        for _ in range(held):
            slots.release()


@asynccontextmanager
async def no_build_ends(node: SearchNode, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Keep builds within the block BUILDING until it ends."""
    feed = node._catalogue._feed
    catch_up, may_end = feed.catch_up, asyncio.Event()

    async def catch_up_later() -> None:
        await may_end.wait()
        await catch_up()

    with monkeypatch.context() as held:
        held.setattr(feed, "catch_up", catch_up_later)
        try:
            yield
        finally:
            may_end.set()
