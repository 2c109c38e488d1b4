"""`wrong_config`: a document was indexed with another chunker or embedding model, or unchecked before the KB refused
documents with credentials.
"""

from kb_reconciler.drift.kinds import Comparison, DocumentDrift
from kb_reconciler.drift.sync import request_sync
from kb_shared.mongo.database import Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase


def _condition(kb: KnowledgeBase) -> Row:
    has_other_settings: Row = {"$ne": ["$row.config_hash", kb.config_hash]}
    if not kb.refuse_sensitive:
        return has_other_settings
    return {"$or": [has_other_settings, {"$ne": ["$row.content_checked", True]}]}


WRONG_CONFIG = DocumentDrift("wrong_config", Comparison.MEMBERSHIP, _condition, repair=request_sync)
