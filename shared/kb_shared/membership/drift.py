"""Finds the documents of a KB that have drift. Used by backfills and by the reconciler."""

from collections.abc import Sequence

from kb_shared.membership import Action, decide
from kb_shared.mongo import document_index, documents
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase


async def find_drift(database: Database, kb: KnowledgeBase, document_ids: Sequence[str]) -> dict[str, Action]:
    """Return the action for each of `document_ids` that has drift in `kb`."""
    # `document_index` is read before `documents`: a document that is indexed in between then only seems to have drift,
    # and is checked once more. The other way round, it would seem that it has to be removed.
    rows = await document_index.find_by_ids(database, kb.key, document_ids)
    states = await documents.find_by_ids(database, kb.organization_id, document_ids)
    actions = {i: decide(states.get(i), kb, rows.get(i)) for i in document_ids}
    return {document_id: action for document_id, action in actions.items() if action is not Action.NOTHING}
