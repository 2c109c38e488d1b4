"""Watches the search indexes after a swap: measures when new chunks are found, then deletes what they replaced.

Retired chunks exist only so that a document does not vanish while the indexes lag. They are deleted a short time after
the new ones are found: a search that asked the index just before still looks up the ids that it got. The index
of every member has to find them, because the next primary may be any of them. If a member can't be asked, or this
process crashes, the TTL deletes them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_indexer.members import on_each_member
from kb_shared.errors import SearchUnavailable
from kb_shared.mongo import index_queries, vectors
from kb_shared.mongo.vectors import Chunks, EmbeddedChunk
from kb_shared.observability import spans, tracing
from kb_shared.observability.metrics import TIME_TO_SEARCHABLE_SECONDS

GRACE_S: Final = 2.0
_GIVE_UP_S: Final = 55.0
_AT_ONCE: Final = 8
_SAMPLED_EVERY_S: Final = 1.0
_WATCHED_AT_MOST: Final = 64
"""Greatest number of probes. The chunks of other documents are deleted by the TTL index."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Watch:
    chunks: Chunks
    document_id: str
    ids: frozenset[str]
    sample: EmbeddedChunk
    version: int
    retired: bool
    occurred_at: datetime
    path: str


class SearchProbe:
    """One per process. Swaps that retired something are watched; of the others a sample, for the metric."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._sampled_at = -_SAMPLED_EVERY_S

    def watch(
        self,
        chunks: Chunks,
        document_id: str,
        sample: EmbeddedChunk,
        *,
        ids: Sequence[str],
        version: int,
        retired: bool,
        occurred_at: datetime,
        path: str,
    ) -> None:
        """Begin to watch for `sample`, one of the new chunks `ids`; returns at once."""
        if len(self._tasks) >= _WATCHED_AT_MOST or not (retired or self._is_time_for_a_sample()):
            return
        watch = _Watch(
            chunks,
            document_id,
            frozenset(ids),
            sample,
            version,
            retired,
            occurred_at,
            path,
        )
        task = asyncio.create_task(self._follow(watch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _is_time_for_a_sample(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._sampled_at < _SAMPLED_EVERY_S:
            return False
        self._sampled_at = now
        return True

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, watch: _Watch) -> None:
        # With a wait for the semaphore, the time would measure that wait.
        measured = not self._turns.locked()
        try:
            async with self._turns:
                with tracing.span(spans.SEARCHABLE) as span:
                    found = await _until(partial(_found_by_vector, watch))
                    span.set({"kb.found": found})
            if found and measured:
                TIME_TO_SEARCHABLE_SECONDS.labels(watch.path).observe(
                    max(0.0, (datetime.now(UTC) - watch.occurred_at).total_seconds())
                )
            if found and watch.retired and await _found_everywhere(watch):
                await asyncio.sleep(GRACE_S)
                await vectors.delete_retired(watch.chunks, watch.document_id, up_to_version=watch.version - 1)
        except (PyMongoError, SearchUnavailable) as error:
            # The TTL deletes the chunks a minute later. A KB that was deleted meanwhile has none.
            log.info("search_probe.gave_up", error=type(error).__name__)


async def _until(found: Callable[[], Awaitable[bool]]) -> bool:
    """Poll `found` until it is true, at growing intervals; return False if that takes longer than 55 s."""
    pause_s = 0.02
    deadline = asyncio.get_running_loop().time() + _GIVE_UP_S
    while asyncio.get_running_loop().time() < deadline:
        if await found():
            return True
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.5)
    return False


async def _found_everywhere(watch: _Watch) -> bool:
    """Wait until both indexes of every member have the new chunks; return False if one lacks them or can't be asked.

    A text search sees a document only through the text index, which may lag more than the vector index.
    """
    members = on_each_member(watch.chunks)
    if members is None:
        return False
    for chunks in members:
        there = replace(watch, chunks=chunks)
        if not (await _until(partial(_found_by_vector, there)) and await _until(partial(_found_by_words, there))):
            return False
    return True


async def _found_by_vector(watch: _Watch) -> bool:
    found = await index_queries.query_vector_index(
        watch.chunks,
        watch.sample.vector,
        limit=10,
        query_filter={"document_id": watch.document_id},
        exact=True,
    )
    return not watch.ids.isdisjoint(found)


async def _found_by_words(watch: _Watch) -> bool:
    return await index_queries.any_in_text_index(watch.chunks, watch.document_id, watch.ids)
