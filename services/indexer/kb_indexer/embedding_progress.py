"""Notes at the job of a large document how many of its chunks have their vectors, while it is being embedded.

A document whose vectors come in one answer costs no write. One at a time is under way: what comes meanwhile is in the
next one, so there are at most as many as answers of the provider.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import structlog
from pymongo.errors import PyMongoError

from kb_shared.embedding.sub_batches import MAX_TEXTS
from kb_shared.mongo import index_jobs
from kb_shared.mongo.database import Database
from kb_shared.mongo.index_jobs import IndexJob

NoteMissing: TypeAlias = Callable[[int], None]
"""Function that notes the number of texts whose vectors are not there yet."""

log = structlog.get_logger()


@asynccontextmanager
async def noting_embedded(database: Database, job: IndexJob, *, chunks: int) -> AsyncIterator[NoteMissing]:
    """Note what the yielded function is told; nothing is written any more when the block has ended.

    A swap follows, whose transaction would conflict with a write to the job.
    """
    progress = _ProgressNotes(database, job, chunks=chunks)
    try:
        yield progress.note
    finally:
        await progress.finish()


class _ProgressNotes:
    def __init__(self, database: Database, job: IndexJob, *, chunks: int) -> None:
        self._database = database
        self._job = job
        self._chunks = chunks
        self._missing: int | None = None
        self._noted: int | None = None
        self._writing: asyncio.Task[None] | None = None

    def note(self, missing: int) -> None:
        is_first = self._missing is None
        self._missing = missing
        # The first number is told before the provider is asked: only that of a large document takes several answers.
        if self._writing is None and missing > (MAX_TEXTS if is_first else 0):
            self._writing = asyncio.create_task(self._write())

    async def finish(self) -> None:
        self._missing = self._noted
        if self._writing is not None:
            await asyncio.shield(self._writing)

    async def _write(self) -> None:
        try:
            while self._missing and self._missing != self._noted:
                self._noted = self._missing
                await index_jobs.note_embedded(
                    self._database, self._job, chunks=self._chunks, embedded=max(0, self._chunks - self._noted)
                )
        except PyMongoError as error:
            # The document is not the worse for it.
            log.warning("embedding.progress_not_noted", error=type(error).__name__)
        finally:
            self._writing = None
