"""`wrong_config`: a document was indexed with another chunker or embedding model than the KB has."""

from kb_reconciler.drift.kinds import Comparison, DocumentDrift
from kb_reconciler.drift.sync import request_sync
from kb_shared.mongo.database import Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase


def _condition(kb: KnowledgeBase) -> Row:
    return {"$ne": ["$row.config_hash", kb.config_hash]}


WRONG_CONFIG = DocumentDrift("wrong_config", Comparison.MEMBERSHIP, _condition, repair=request_sync)
