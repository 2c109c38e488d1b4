"""The threads that chunking, which is CPU work, has beside the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from kb_shared.concurrency.shared_thread import SharedThread

LARGE_TEXT: Final = 500_000
"""Characters. From about half a second of chunking on, a document waits for its like only."""
SHARE_OF_ORGANIZATION: Final = 0.5
"""Share of the thread's time for large texts: 20 MB take 6 s of CPU. To embed a large text takes longer than to chunk
it, so that an organization which is alone hardly notices."""

T = TypeVar("T")


class ChunkingThreads:
    """One for large texts, so that what takes seconds, or is refused in the end, keeps no other document waiting."""

    def __init__(self) -> None:
        self._ordinary = ThreadPoolExecutor(max_workers=1, thread_name_prefix="chunking")
        self._large = SharedThread("chunking-large", share_of=lambda _: SHARE_OF_ORGANIZATION)

    async def work(self, organization_id: str, text: str, do: Callable[[], T]) -> T:
        """Call `do`, which is about `text`, in the thread for texts of its size."""
        if len(text) > LARGE_TEXT:
            return await self._large.work(organization_id, do)
        return await asyncio.get_running_loop().run_in_executor(self._ordinary, do)

    def close(self) -> None:
        self._ordinary.shutdown(wait=False, cancel_futures=True)
        self._large.close()
