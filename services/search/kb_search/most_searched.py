"""Measures how long documents take to be indexed, in the knowledge bases that are searched most."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.mongo import document_index, knowledge_bases
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.query_log import SearchCount

MEASURED: Final = 10
"""Each one costs a query, which reads up to a thousand rows."""


async def measure_most_searched(
    database: Database, organization_id: str, counted: Sequence[SearchCount]
) -> dict[str, float | None]:
    """Return the mean indexing time by KB, in seconds, of those that exist and have the most searches."""
    searches = Counter[str]()
    for each in counted:
        if each.kb_id is not None:
            searches[each.kb_id] += each.searches
    if not searches:
        return {}
    existing = await knowledge_bases.find_names(database, organization_id, kb_ids=searches)
    measured = [kb_id for kb_id, _ in searches.most_common() if kb_id in existing][:MEASURED]
    recent = await run_all_or_cancel(
        document_index.measure_recent(database, KnowledgeBaseKey(organization_id, kb_id)) for kb_id in measured
    )
    return dict(zip(measured, (each.mean_indexing_s for each in recent), strict=True))
