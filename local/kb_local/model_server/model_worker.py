"""A model on threads of its own, so that the event loop never waits for it and no core is idle while texts wait."""

import asyncio
import itertools
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from kb_local.model_server.openai_api import ClientDisconnected, EmbeddingResult
from kb_local.model_server.text_model import TextModel, WordPieces, batches
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel

TEXTS_TOKENIZED_AT_ONCE = 64
NICENESS_OF_FURTHER_THREADS = 5
"""Niceness that is added to that of the process: the share of a busy core is a quarter instead of a half."""

Given = TypeVar("Given")
Result = TypeVar("Result")


class ModelWorker:
    """Loads the model in the background, at the latest when it is first asked, and embeds one batch on each core.

    The threads' queue holds batches, not requests: a short query waits for one batch of a long request, not for all.
    """

    def __init__(self, model: type[TextModel], *, threads: int | None = None) -> None:
        """Prepare a worker that loads its model later.

        Args:
            model: loaded once for all threads.
            threads: how many batches are embedded at once; by default one for each core that this process may use.
        """
        self.model = model
        self._batches_at_once = threads or _usable_cores()
        self._begun_threads = itertools.count()
        self._threads = ThreadPoolExecutor(
            max_workers=self._batches_at_once, thread_name_prefix=model.name, initializer=self._lower_priority
        )
        self._loading: Future[TextModel] | None = None

    def load(self) -> Future[TextModel]:
        """Begin to load the model, unless that was begun before."""
        if self._loading is None:
            self._loading = self._threads.submit(self.model.load)
        return self._loading

    def why_not_ready(self) -> str | None:
        """Return None once the model can embed, else what it waits for or what went wrong."""
        loading = self.load()
        if not loading.done():
            return f"{self.model.name} is loading"
        failure = loading.exception()
        return str(failure) if failure else None

    async def embed(self, texts: Sequence[str], *, is_disconnected: Callable[[], Awaitable[bool]]) -> EmbeddingResult:
        """Return one vector per text in the order of `texts`, and the word pieces read.

        Raises:
            ClientDisconnected: noticed between two batches; the rest was not embedded.
            UnusableModelFile: the model could not be loaded.
        """
        model = await asyncio.shield(asyncio.wrap_future(self.load()))
        tokenized = await self._tokenize(model, texts)
        vectors = np.empty((len(texts), model.dimensions), dtype=np.float32)
        waiting = batches(tokenized)

        async def embed_what_waits() -> None:
            for positions in waiting:
                # A client that timed out asks again; working on for its first attempt would make that one late too.
                if await is_disconnected():
                    raise ClientDisconnected
                vectors[positions] = await self._run(model.embed, [tokenized[position] for position in positions])

        await run_all_or_cancel(embed_what_waits() for _ in range(self._batches_at_once))
        return EmbeddingResult(list(vectors), prompt_tokens=sum(len(pieces) for pieces in tokenized))

    def close(self) -> None:
        """Drop queued batches and wait for the running ones."""
        self._threads.shutdown(cancel_futures=True)

    def _lower_priority(self) -> None:
        """Leave all cores but one to the other processes as far as they need them."""
        is_further = next(self._begun_threads) > 0
        # On Linux it is the niceness of this thread; elsewhere it would be that of the whole process.
        if is_further and sys.platform == "linux":
            os.nice(NICENESS_OF_FURTHER_THREADS)

    async def _tokenize(self, model: TextModel, texts: Sequence[str]) -> list[WordPieces]:
        tokenized: list[WordPieces] = []
        for start in range(0, len(texts), TEXTS_TOKENIZED_AT_ONCE):
            tokenized += await self._run(model.tokenize, texts[start : start + TEXTS_TOKENIZED_AT_ONCE])
        return tokenized

    async def _run(self, work: Callable[[Given], Result], given: Given) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, given)


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
