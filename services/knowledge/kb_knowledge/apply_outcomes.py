"""Notes in the rows of entries what became of their documents, as `kb-events` says.

Only outcomes in the KB of the entries count, and only those of the present revision: one of an older revision changes
nothing. An entry in `error` becomes `ready` when a later attempt of the indexer succeeds.
"""

from typing import Final

import structlog

from kb_contracts.cloudevents import decode
from kb_contracts.errors import Rejected
from kb_contracts.outcomes import KB_EVENTS, DocumentIndexed, DocumentIndexFailed, DocumentRejected
from kb_contracts.reserved_ids import find_entry_id
from kb_knowledge.entry_events import revision_of
from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.kafka.record import OrderingKey, Record
from kb_shared.mongo import knowledge_bases, knowledge_entries
from kb_shared.mongo.database import Database, mongo_errors
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import KnowledgeBaseKind
from kb_shared.mongo.knowledge_entries import EmbeddingError, EntryKey
from kb_shared.observability.metrics import ENTRY_OUTCOMES

_REMEMBERED: Final = 10_000

log = structlog.get_logger()


class OutcomeHandler:
    """Handler of `kb-events`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # The kind of a KB never changes.
        self._of_knowledge: BoundedCache[str, bool] = BoundedCache(_REMEMBERED)

    def ordering_key(self, record: Record) -> OrderingKey:
        key = (record.key or b"").decode(errors="replace")
        return OrderingKey(organization_id=key.partition("/")[0], group="", key=key)

    async def handle(self, record: Record) -> None:
        try:
            _, outcome = decode(record.value, KB_EVENTS)
        except Rejected as error:
            if error.reason == "unknown-type":
                # A later version of the services announces more.
                return
            raise
        with mongo_errors():
            match outcome:
                case DocumentIndexed() | DocumentIndexFailed():
                    await self._apply_attempt(outcome)
                case DocumentRejected():
                    await self._apply_rejection(outcome)

    async def _apply_attempt(self, outcome: DocumentIndexed | DocumentIndexFailed) -> None:
        entry_id, revision = find_entry_id(outcome.document_id), outcome.revision
        if entry_id is None or revision is None:
            return
        key = EntryKey(outcome.organization_id, entry_id)
        if not await self._is_of_knowledge(KnowledgeBaseKey(outcome.organization_id, outcome.kb_id)):
            return
        if isinstance(outcome, DocumentIndexed):
            noted = await knowledge_entries.set_status(self._database, key, "ready", revision=revision)
        else:
            error = EmbeddingError(outcome.error_type, outcome.message)
            noted = await knowledge_entries.set_status(self._database, key, "error", revision=revision, error=error)
        _report(outcome, entry_id=entry_id, noted=noted)

    async def _apply_rejection(self, outcome: DocumentRejected) -> None:
        entry_id = None if outcome.document_id is None else find_entry_id(outcome.document_id)
        if entry_id is None or outcome.organization_id is None or outcome.event_id is None:
            return
        key = EntryKey(outcome.organization_id, entry_id)
        revision = revision_of(outcome.event_id, key)
        if revision is None:
            return
        error = EmbeddingError(outcome.reason, outcome.detail)
        noted = await knowledge_entries.set_status(self._database, key, "error", revision=revision, error=error)
        _report(outcome, entry_id=entry_id, noted=noted)

    async def _is_of_knowledge(self, key: KnowledgeBaseKey) -> bool:
        known = self._of_knowledge.find(key.kb_id)
        if known is None:
            kb = await knowledge_bases.find(self._database, key)
            if kb is None:
                return False
            known = kb.kind is KnowledgeBaseKind.KNOWLEDGE
            self._of_knowledge.put(key.kb_id, value=known)
        return known


def _report(outcome: DocumentIndexed | DocumentIndexFailed | DocumentRejected, *, entry_id: str, noted: bool) -> None:
    status = "ready" if isinstance(outcome, DocumentIndexed) else "error"
    ENTRY_OUTCOMES.labels(status if noted else "outdated").inc()
    log.info("entry.outcome_applied", entry_id=entry_id, type=outcome.TYPE, noted=noted)
