"""A model on a thread of its own, so that the event loop never waits for it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from kb_local.model_server.openai_api import CallerLeft, Embedded
from kb_local.model_server.text_model import TextModel, WordPieces, batches

TEXTS_TOKENIZED_AT_ONCE = 64

Given = TypeVar("Given")
Result = TypeVar("Result")


class ModelWorker:
    """Loads the model in the background, at the latest when it is first asked, and embeds one batch at a time.

    The thread's queue holds batches, not requests: a short query waits for one batch of a long request, not for all.
    """

    def __init__(self, model: type[TextModel]) -> None:
        self.model = model
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=model.name)
        self._loading: Future[TextModel] | None = None

    def load(self) -> Future[TextModel]:
        """Begin to load the model, unless that was begun before."""
        if self._loading is None:
            self._loading = self._thread.submit(self.model.load)
        return self._loading

    def why_not_ready(self) -> str | None:
        """Return None once the model can embed, else what it waits for or what went wrong."""
        loading = self.load()
        if not loading.done():
            return f"{self.model.name} is loading"
        failure = loading.exception()
        return str(failure) if failure else None

    async def embed(self, texts: Sequence[str], *, caller_left: Callable[[], Awaitable[bool]]) -> Embedded:
        """Return one vector per text in the order of `texts`, and the word pieces read.

        Raises:
            CallerLeft: noticed between two batches; the rest was not embedded.
            UnusableModelFile: the model could not be loaded.
        """
        model = await asyncio.shield(asyncio.wrap_future(self.load()))
        tokenized = await self._tokenize(model, texts)
        vectors = np.empty((len(texts), model.dimensions), dtype=np.float32)
        for positions in batches(tokenized):
            # A client that timed out asks again; working on for its first attempt would only make that one late too.
            if await caller_left():
                raise CallerLeft
            vectors[positions] = await self._run(model.embed, [tokenized[position] for position in positions])
        return Embedded(list(vectors), prompt_tokens=sum(len(pieces) for pieces in tokenized))

    def close(self) -> None:
        """Drop what is queued and wait for the batch in hand."""
        self._thread.shutdown(cancel_futures=True)

    async def _tokenize(self, model: TextModel, texts: Sequence[str]) -> list[WordPieces]:
        tokenized: list[WordPieces] = []
        for start in range(0, len(texts), TEXTS_TOKENIZED_AT_ONCE):
            tokenized += await self._run(model.tokenize, texts[start : start + TEXTS_TOKENIZED_AT_ONCE])
        return tokenized

    async def _run(self, work: Callable[[Given], Result], given: Given) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, given)
