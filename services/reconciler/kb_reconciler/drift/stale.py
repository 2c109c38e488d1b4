"""`stale`: a document is indexed, but was deleted or has no tag of the KB any more."""

from kb_reconciler.drift.kinds import HAS_ROW, Comparison, DocumentDrift
from kb_reconciler.drift.sync import request_sync
from kb_shared.mongo.database import Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase


def _condition(_: KnowledgeBase) -> Row:
    return {"$and": [HAS_ROW, {"$ne": ["$document.alive", True]}]}


STALE = DocumentDrift("stale", Comparison.MEMBERSHIP, _condition, repair=request_sync, removes=True)
