"""One pass: publish documents to Kafka, wait until all is as it should be, say what that took."""

import asyncio
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, Final

from benchmarks.indexing.resource_usage import take_snapshot, usage_between
from benchmarks.indexing.system import System
from kb_contracts.documents import OcrCompleted

_SAMPLE: Final = 5


async def run_pass(system: System, events: Sequence[OcrCompleted], *, kb_of_tag: Mapping[str, str]) -> dict[str, Any]:
    """Publish `events`, one a document, and measure until each is indexed and the last ones are found.

    What came before those in the change stream is found, too.

    Args:
        events: each of a document that belongs to one KB.
        kb_of_tag: the KB of each tag.
    """
    kb_ids = kb_of_tag.values()
    chunks_before = await system.live_chunks(kb_ids)
    kb_of_document = {event.document_id: kb_of_tag[event.tag_ids[0]] for event in events}
    before = await take_snapshot(system.stack, system.mongod)
    began = monotonic()
    await system.events.publish_all(events)
    published_s = monotonic() - began
    last = await system.outcomes.until_indexed(kb_of_document, revision=events[0].revision)
    await asyncio.gather(*(system.until_found(kb_of_document[each], [each]) for each in last[-_SAMPLE:]))
    seconds = monotonic() - began
    used = usage_between(before, await take_snapshot(system.stack, system.mongod))
    chunks = await system.live_chunks(kb_ids)
    indexed_chunks = chunks - chunks_before or chunks
    return {
        "docs_per_s": round(len(events) / seconds, 2),
        "chunks_per_s": round(indexed_chunks / seconds, 1),
        "chunks": indexed_chunks,
        "seconds": round(seconds, 3),
        "publish_s": round(published_s, 3),
        **used.figures(documents=len(events), chunks=indexed_chunks),
    }
