"""`stale_text`: another text of the document is indexed, or the same text under another revision."""

from kb_reconciler.drift.kinds import Comparison, DocumentDrift
from kb_reconciler.drift.sync import request_sync
from kb_shared.mongo.database import Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase


def _condition(_: KnowledgeBase) -> Row:
    return {
        "$or": [
            {"$ne": ["$row.content_digest", "$document.text_id"]},
            {"$ne": ["$row.text_revision", "$document.text_revision"]},
        ]
    }


STALE_TEXT = DocumentDrift("stale_text", Comparison.MEMBERSHIP, _condition, repair=request_sync)
