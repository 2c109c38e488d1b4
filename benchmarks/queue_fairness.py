"""`python -m benchmarks.queue_fairness`: what a KB with a long queue does to a new document of another KB.

First a backfill: a KB is created for documents that are there already. Then the live lane: as many new documents of
one KB are published at once, and newcomers come as soon as the events have become jobs. In both, newcomers of another
KB come one at a time while the queue lasts, and what they take is compared with what they take on the idle system.
"""

import argparse
from pathlib import Path
from typing import Any, Final

from benchmarks import command
from benchmarks.indexing import corpus
from benchmarks.indexing.searchable_timer import SearchableTimer, percentiles_ms
from benchmarks.indexing.system import System, add_options, running_system, until
from kb_shared.mongo import document_index, documents, index_jobs

NEWCOMERS: Final = "newcomers"
_FEWEST: Final = 2
"""Times that have percentiles."""


def main() -> None:
    parser = command.parser("queue_fairness", __doc__)
    parser.add_argument("--queued", type=int, default=10_000, help="documents")
    parser.add_argument("--newcomers", type=int, default=30, help="on the idle system, and at most beside each queue")
    add_options(parser, words=330, dims=384)
    command.run(parser, _measure)


async def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    async with running_system(folder, options) as system:
        kb_id = await system.create_knowledge_base(NEWCOMERS, options)
        timer = SearchableTimer(system, kb_id, tag_id=NEWCOMERS, options=options)
        # The first ones find connections unmade and code not yet imported.
        await timer.measure_s(3)
        idle = percentiles_ms(await timer.measure_s(options.newcomers))
        beside = {
            "backfill": await _measure_beside(timer, await _backfill(system, options), options),
            "live": await _measure_beside(timer, await _flood(system, options), options),
        }
    return {
        "idle": idle,
        **beside,
        "p95_over_idle_ms": {lane: round(each["p95_ms"] - idle["p95_ms"], 1) for lane, each in beside.items()},
    }


class _KnowledgeBaseQueue:
    """Documents of one KB that are not indexed yet."""

    def __init__(self, system: System, kb_id: str, *, documents: int) -> None:
        self._database = system.mongod[system.stack.database]
        self._kb_id = kb_id
        self._documents = documents

    async def length(self) -> int:
        return self._documents - await self._database[document_index.NAME].count_documents({"kb_id": self._kb_id})

    async def goes_on(self) -> bool:
        return await self.length() > 0

    async def is_empty(self) -> bool:
        return await self.length() == 0

    async def is_complete(self) -> bool:
        jobs: int = await self._database[index_jobs.NAME].count_documents({"kb_id": self._kb_id})
        return jobs >= await self.length()


async def _measure_beside(
    timer: SearchableTimer, queue: _KnowledgeBaseQueue, options: argparse.Namespace
) -> dict[str, Any]:
    first = await queue.length()
    times_s = await timer.measure_s(options.newcomers, wanted=queue.goes_on)
    last = await queue.length()
    if len(times_s) < _FEWEST:
        raise SystemExit(f"the queue was empty after {len(times_s)} newcomers: give it more documents (--queued)")
    await until(queue.is_empty)
    return {
        **percentiles_ms(times_s),
        "queued_at_first": first,
        "queued_at_last": last,
    }


async def _backfill(system: System, options: argparse.Namespace) -> _KnowledgeBaseQueue:
    """Create a KB for documents that are there."""
    await _publish(system, options, "backfill", first=0)
    rows = system.mongod[system.stack.database][documents.NAME]

    async def are_known() -> bool:
        known: int = await rows.count_documents({"tag_ids": "backfill"})
        return known >= int(options.queued)

    await until(are_known)
    kb_id = await system.create_knowledge_base("backfill", options)
    return _KnowledgeBaseQueue(system, kb_id, documents=options.queued)


async def _flood(system: System, options: argparse.Namespace) -> _KnowledgeBaseQueue:
    """Publish new documents of a KB that is there, faster than they can be indexed."""
    kb_id = await system.create_knowledge_base("live", options)
    await _publish(system, options, "live", first=options.queued)
    queue = _KnowledgeBaseQueue(system, kb_id, documents=options.queued)
    await until(queue.is_complete)
    return queue


async def _publish(system: System, options: argparse.Namespace, tag_id: str, *, first: int) -> None:
    texts = corpus.texts(documents=options.queued, words=options.words, first=first)
    await system.events.publish_all(
        [system.event(f"doc-{number}", text, tag_id=tag_id) for number, text in enumerate(texts, first)]
    )


if __name__ == "__main__":
    main()
