"""Which documents of a KB are not what the truth says. Read by scans of a KB, by the reconciler."""

from collections.abc import Sequence

from kb_shared.membership import Action, decide
from kb_shared.mongo import document_index, documents
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase


async def find_drift(database: Database, kb: KnowledgeBase, document_ids: Sequence[str]) -> dict[str, Action]:
    """Return the action for each of `document_ids` that has drift in `kb`."""
    # What is indexed is read before the truth: a document indexed in between then looks behind and is looked at
    # once more. The other way round, it would look as if it had to leave.
    rows = await document_index.by_ids(database, kb.key, document_ids)
    states = await documents.by_ids(database, kb.organization_id, document_ids)
    actions = {i: decide(states.get(i), kb, rows.get(i)) for i in document_ids}
    return {document_id: action for document_id, action in actions.items() if action is not Action.NOTHING}
