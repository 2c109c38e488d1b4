"""`incomplete`: live chunks of a document are missing, superfluous or in another order than they were indexed."""

from kb_reconciler.drift.kinds import HAS_ROW, Comparison, DocumentDrift
from kb_reconciler.drift.sync import request_sync_with_force
from kb_shared.mongo.database import Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase


def _condition(_: KnowledgeBase) -> Row:
    return {
        "$and": [
            HAS_ROW,
            {
                "$or": [
                    {"$ne": ["$row.chunk_count", {"$ifNull": ["$chunks.live", 0]}]},
                    # Rows of older versions have no digest.
                    {
                        "$and": [
                            {"$ne": [{"$type": "$row.chunks_digest"}, "missing"]},
                            {"$ne": ["$row.chunks_digest", {"$ifNull": ["$chunks.digest", 0]}]},
                        ]
                    },
                ]
            },
        ]
    }


INCOMPLETE = DocumentDrift("incomplete", Comparison.CHUNKS, _condition, repair=request_sync_with_force)
