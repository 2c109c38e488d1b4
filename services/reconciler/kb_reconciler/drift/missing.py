"""`missing`: a document has a tag of the KB, but no row in `document_index` and no job."""

from kb_reconciler.drift.kinds import HAS_DOCUMENT, HAS_NO_ROW, Comparison, DocumentDrift
from kb_reconciler.drift.sync import request_sync
from kb_shared.mongo.database import Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase


def _condition(_: KnowledgeBase) -> Row:
    return {"$and": [HAS_DOCUMENT, HAS_NO_ROW]}


MISSING = DocumentDrift("missing", Comparison.MEMBERSHIP, _condition, repair=request_sync)
