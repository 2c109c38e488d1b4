"""`unreferenced_text`: no document refers to a text. It was replaced, its document was deleted, or a process crashed.

Of large texts also the files, whole or begun, that no text names.
"""

from datetime import timedelta
from typing import Final

import structlog

from kb_shared.mongo import document_texts, documents
from kb_shared.mongo.database import Database
from kb_shared.mongo.majority import majority_reads
from kb_shared.observability.metrics import RECONCILER_DRIFT, RECONCILER_REPAIRS

UNREFERENCED_FOR: Final = timedelta(days=1)
"""Age of an unreferenced text from which it is deleted: work that began with it has ended by then."""
UNREFERENCED_TEXT: Final = "unreferenced_text"
_STRETCH: Final = 500

log = structlog.get_logger()


async def sweep_texts(database: Database, *, age: timedelta = UNREFERENCED_FOR) -> int:
    """Go through all texts older than `age`; returns how many were deleted."""
    deleted = 0
    after: str | None = None
    while found := await document_texts.find_older_than(database, age, after=after, limit=_STRETCH):
        after = found[-1]
        async with majority_reads(database) as majority:
            referred = await documents.find_referenced_texts(majority, found)
        for text_id in found:
            if text_id not in referred:
                deleted += await document_texts.delete_if_older(database, text_id, age)
    RECONCILER_DRIFT.labels(UNREFERENCED_TEXT).set(deleted)
    RECONCILER_REPAIRS.labels(UNREFERENCED_TEXT, "repaired").inc(deleted)
    log.info("texts.swept", deleted=deleted, files=await _sweep_files(database, age))
    return deleted


async def _sweep_files(database: Database, age: timedelta) -> int:
    deleted = 0
    file_id, stray = await document_texts.delete_next_stray_file(database, age, after=None)
    while file_id is not None:
        deleted += stray
        file_id, stray = await document_texts.delete_next_stray_file(database, age, after=file_id)
    return deleted
