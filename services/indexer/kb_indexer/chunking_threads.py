"""The threads that chunking, which is CPU work, has beside the event loop."""

from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

LARGE_TEXT: Final = 500_000
"""Characters. From about half a second of chunking on, a document waits for its like only."""


class ChunkingThreads:
    """One for large texts, so that what takes seconds, or is refused in the end, keeps no other document waiting."""

    def __init__(self) -> None:
        self._ordinary = ThreadPoolExecutor(max_workers=1, thread_name_prefix="chunking")
        self._large = ThreadPoolExecutor(max_workers=1, thread_name_prefix="chunking-large")

    def of(self, text: str) -> Executor:
        return self._large if len(text) > LARGE_TEXT else self._ordinary

    def close(self) -> None:
        for threads in (self._ordinary, self._large):
            threads.shutdown(wait=False, cancel_futures=True)
