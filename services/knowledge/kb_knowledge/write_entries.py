"""Creates, changes and deletes entries: the row and the event about its document in one transaction, the caller's."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kb_contracts import topics
from kb_contracts.api.knowledge_entries import ChangeEntry, CreateEntry
from kb_contracts.documents import DocumentEvent, fault_of_length, key_of
from kb_knowledge.content_check import refuse_sensitive
from kb_knowledge.entries_knowledge_base import ensure_knowledge_base
from kb_knowledge.entry_events import event_id, require_size, to_deletion, to_event
from kb_knowledge.source import SOURCE
from kb_shared.errors import RequestError
from kb_shared.http.problems import invalid_field
from kb_shared.mongo import citations, knowledge_entries, outbox
from kb_shared.mongo.database import Database, MongoSession
from kb_shared.mongo.knowledge_entries import EntryKey, KnowledgeEntry
from kb_shared.observability import tracing
from kb_shared.settings import KnowledgeBaseSettings
from kb_shared.text.sensitive_content import find_sensitive


def check_entry(written: CreateEntry | ChangeEntry) -> str | None:
    """Check what a request writes into an entry, before anything is stored.

    Returns:
        The reason for which a text is stored that looks as if it contained a credential; None if none does.

    Raises:
        RequestError: 422 `sensitive-content`.
    """
    reason = written.override_reason
    if reason is not None:
        refuse_sensitive(reason, field="override_reason")
        return reason if any(find_sensitive(text) for _, text in _texts_of(written)) else None
    for field, text in _texts_of(written):
        refuse_sensitive(text, field=field, can_override=True)
    return None


def _texts_of(written: CreateEntry | ChangeEntry) -> Iterator[tuple[str, str]]:
    # An absent field is None, whatever its type says.
    for field in ("entry_id", "title", "content", "embedding_text"):
        if (text := getattr(written, field, None)) is not None:
            yield field, text
    for tag in written.tags or ():
        yield "tags", tag


class EntryWriter:
    """Writes entries. What people write, imports and sources all go through this."""

    def __init__(self, database: Database, settings: KnowledgeBaseSettings) -> None:
        self._database = database
        self._settings = settings

    async def create(self, session: MongoSession, entry: KnowledgeEntry) -> KnowledgeEntry:
        """Store a new entry, whose texts were checked, as `pending`; return it with its revision.

        Raises:
            RequestError: 409 `entry-exists`, 413 `event-too-large`.
        """
        stored = await knowledge_entries.insert(self._database, session, entry)
        if stored is None:
            raise RequestError(
                409,
                "entry-exists",
                "The organization has an entry with this entry_id: PATCH it, or choose another entry_id.",
            )
        await ensure_knowledge_base(
            self._database, session, self._settings, organization_id=entry.organization_id, by=entry.created_by
        )
        await self._publish_state(session, stored)
        return stored

    async def change(
        self, session: MongoSession, entry: KnowledgeEntry, *, fields: Mapping[str, Any], by: str
    ) -> KnowledgeEntry:
        """Write fields of an entry that was read in this transaction; nothing happens if they are as they were.

        Raises:
            RequestError: 413 `event-too-large`, 422 `validation-error`: the content is too long for an embedding text.
        """
        changes = {name: value for name, value in fields.items() if value != getattr(entry, name)}
        changed = replace(entry, **changes)
        if fault := fault_of_length(changed.content, embedding_text=changed.embedding_text):
            raise invalid_field("content", fault)
        return await self.repeat(session, entry, fields=changes, by=by) if changes else entry

    async def repeat(
        self, session: MongoSession, entry: KnowledgeEntry, *, by: str, fields: Mapping[str, Any] | None = None
    ) -> KnowledgeEntry:
        """Give an entry its next revision, which is indexed again, whatever has changed."""
        changed = await knowledge_entries.change(self._database, session, entry, fields=fields or {}, by=by)
        await self._publish_state(session, changed)
        return changed

    async def delete(self, session: MongoSession, key: EntryKey) -> None:
        """Delete an entry with its citations. Raises NotFound."""
        revision = await knowledge_entries.delete(self._database, session, key)
        await citations.delete_of_document(self._database, key.document, session=session)
        await self._publish(session, to_deletion(key, revision=revision), key=key)

    async def _publish_state(self, session: MongoSession, entry: KnowledgeEntry) -> None:
        event = to_event(entry)
        require_size(event)
        await self._publish(session, event, key=entry.key)

    async def _publish(self, session: MongoSession, event: DocumentEvent, *, key: EntryKey) -> None:
        message = outbox.NewMessage(
            event,
            topic=topics.KNOWLEDGE_DOCUMENT_EVENTS.name,
            key=key_of(event).decode(),
            ordering=f"entry/{key.organization_id}/{key.entry_id}",
            # All writers of an entry write its row first, so that revisions are committed in their order.
            seq=event.revision,
            source=SOURCE,
            traceparent=tracing.current(),
            event_id=event_id(key, revision=event.revision),
        )
        await outbox.add(self._database, session, [message])
