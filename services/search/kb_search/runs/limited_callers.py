"""Decides what callers whose keys are limited to KBs may do with runs.

Runs and conversations show passages of any KB that they searched, so that such a key gets its own ones only.
"""

from collections.abc import Iterable

from kb_search.store.runs import Thread
from kb_shared.errors import NotFound
from kb_shared.http.authentication import Caller
from kb_shared.mongo import document_index
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import DocumentKey


def owner_if_limited(caller: Caller) -> str | None:
    """Return the API key whose runs the caller may see; None: those of all keys."""
    return None if caller.kb_ids is None else caller.key_id


def require_own_thread(caller: Caller, thread: Thread) -> None:
    """Raise NotFound if the caller's key is limited and did not create the thread."""
    if owner_if_limited(caller) not in (None, thread.created_by):
        raise NotFound("thread")


def require_knowledge_bases(caller: Caller, kb_ids: Iterable[str]) -> None:
    """Raise NotFound if the caller's key is limited to other KBs than those that a run would search."""
    for kb_id in kb_ids:
        caller.require_knowledge_base(kb_id)


async def require_document(database: Database, caller: Caller, document_id: str) -> None:
    """Raise NotFound if the caller's key is limited to KBs of which none contains the document."""
    if caller.kb_ids is None:
        return
    key = DocumentKey(caller.organization_id, document_id)
    if not await document_index.is_in_any(database, key, kb_ids=caller.kb_ids):
        raise NotFound("document")
