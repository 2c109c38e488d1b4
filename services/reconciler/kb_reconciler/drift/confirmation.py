"""Confirms membership drift that a comparison found, by the decision that the indexer will make."""

from collections.abc import Mapping
from datetime import datetime

from kb_reconciler.drift.stale import STALE
from kb_shared.membership import Action
from kb_shared.membership.drift import find_drift
from kb_shared.mongo import documents
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase


async def confirm(
    database: Database, kb: KnowledgeBase, found: Mapping[str, str], *, unchanged_since: datetime
) -> dict[str, str]:
    """Return those of `found`, kinds of drift by document, that still have it and did not change just now.

    Documents that changed after `unchanged_since` are left out: their events may be on their way to the indexer.
    Digests of documents that were not computed from their current version are corrected.
    """
    if not found:
        return {}
    changed = await documents.find_changed_since(
        database, kb.organization_id, document_ids=found.keys(), since=unchanged_since
    )
    actions = await find_drift(database, kb, list(found))
    await documents.correct_digests(database, kb.organization_id, document_ids=found.keys() - actions.keys())
    return {
        document_id: kind
        for document_id, kind in found.items()
        if document_id not in changed and _agree(kind, actions.get(document_id, Action.NOTHING))
    }


def _agree(kind: str, action: Action) -> bool:
    if action is Action.NOTHING:
        return False
    return (kind == STALE.name) == (action is Action.REMOVE)
