"""What is made is also run."""

import asyncio
from typing import Any

from kb_indexer.bootstrap import Indexer


class RunningPart:
    """Anything of the indexer: runs until it is told to stop, or for ever."""

    def __init__(self, name: str, running: set[str]) -> None:
        self._name = name
        self._running = running

    async def run(self, stop: asyncio.Event | None = None) -> None:
        self._running.add(self._name)
        await (stop or asyncio.Event()).wait()
        self._running.remove(self._name)


async def test_all_parts_of_the_indexer_run_until_it_stops() -> None:
    running: set[str] = set()
    names = set(Indexer.__slots__)
    parts: dict[str, Any] = {name: RunningPart(name, running) for name in names}
    stop = asyncio.Event()
    indexer = asyncio.create_task(Indexer(**parts).run(stop))
    for _ in range(10):
        await asyncio.sleep(0)
    assert running == names
    stop.set()
    await indexer
