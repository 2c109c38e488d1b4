"""`stale_snapshot`: the chunks of a document carry another name, other tags or other metadata than the document has."""

from kb_reconciler.drift.kinds import Comparison, DocumentDrift
from kb_reconciler.drift.sync import request_sync
from kb_shared.mongo.database import Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase


def _condition(_: KnowledgeBase) -> Row:
    return {
        "$or": [
            {"$ne": ["$row.snapshot_digest", "$document.chunk_metadata_digest"]},
            # The digest was not computed from this version of the document, so it proves nothing.
            {"$ne": ["$document.digested_version", "$document.projection_version"]},
        ]
    }


STALE_SNAPSHOT = DocumentDrift("stale_snapshot", Comparison.MEMBERSHIP, _condition, repair=request_sync)
