"""Turns a document event into one command for each KB that it concerns.

In this order: the text, the projection, the KBs, the jobs, the commands; the offset last. A crash anywhere repeats
the event, and a repeated event still sends commands for drift, so the offset serves as the outbox here.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Final

import structlog

from kb_contracts.cloudevents import Envelope, Payload, decode
from kb_contracts.commands import Reason, SyncDocument
from kb_contracts.documents import (
    DOCUMENT_EVENTS,
    DescribedEvent,
    DocumentDeleted,
    DocumentEvent,
    MetadataChanged,
    OcrCompleted,
    TagDeleted,
    TagsChanged,
    TagUpserted,
    fault_of_last_page,
    fault_of_length,
    key_of,
)
from kb_contracts.errors import Rejected
from kb_contracts.metadata import require_storable_metadata
from kb_contracts.topics import KNOWLEDGE_DOCUMENT_EVENTS
from kb_indexer.acknowledgements import Acknowledgements
from kb_indexer.consumer.backlog import Backlog
from kb_indexer.consumer.load import EventThrottle
from kb_indexer.consumer.record_keys import ordering_key_of_event, refuse_contradicting_key
from kb_indexer.consumer.reserved_ids import require_ids_of_topic
from kb_indexer.consumer.suspect_quarantine import SuspectQuarantine
from kb_indexer.known_tags import KnownTags
from kb_indexer.outdated_events import announce_outdated
from kb_indexer.state_reader import StateReader
from kb_shared.concurrency.batch_loader import BatchLoader
from kb_shared.concurrency.concurrent_tasks import run_all, run_three_or_cancel
from kb_shared.errors import TransientError
from kb_shared.failpoints import reach
from kb_shared.kafka.record import OrderingKey, Record
from kb_shared.membership import Action, decide, membership
from kb_shared.membership.projection import apply
from kb_shared.messaging.index_requests import IndexRequests
from kb_shared.messaging.known_organizations import KnownOrganizations
from kb_shared.mongo import citations, document_texts, documents, tags
from kb_shared.mongo.bulk_lookup import OrganizationKey
from kb_shared.mongo.database import Database, mongo_errors
from kb_shared.mongo.document_index import IndexedDocument
from kb_shared.mongo.document_texts import NewText
from kb_shared.mongo.documents import AppliedEvent, Document, DocumentChange
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.mongo.keys import DocumentKey, TagKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.observability import spans, tracing

_MAX_RACES: Final = 20
_REFERRED_AT_ONCE: Final = 8
"""Events whose texts are stored already: such an event is small, and its text may be 20 MB."""
_REASONS: Final[dict[type[Payload], Reason]] = {
    OcrCompleted: Reason.OCR,
    TagsChanged: Reason.TAG,
    MetadataChanged: Reason.METADATA,
    DocumentDeleted: Reason.DELETED,
}

log = structlog.get_logger()


class FanOut:
    """Handler of `document-events` and `knowledge-document-events`."""

    def __init__(
        self,
        database: Database,
        requests: IndexRequests,
        *,
        state_reader: StateReader,
        quarantine: SuspectQuarantine,
        backlog: Backlog,
        load: EventThrottle,
        organizations: KnownOrganizations | None = None,
        knowledge_topic: str = KNOWLEDGE_DOCUMENT_EVENTS.name,
    ) -> None:
        """Create the handler.

        Args:
            database: with the state that events change.
            requests: sends the commands.
            state_reader: reads what is there.
            quarantine: counts crashes of documents.
            backlog: knows which KBs have many open jobs.
            load: throttles.
            organizations: those whose events are accepted; None: any, also one that comes into being by its event.
            knowledge_topic: topic of the events of entries, with the prefix of the deployment.
        """
        self._database = database
        self._requests = requests
        self._state_reader = state_reader
        self._quarantine = quarantine
        self._backlog = backlog
        self._load = load
        self._organizations = organizations
        self._knowledge_topic = knowledge_topic
        self._known_tags = KnownTags(database)
        self._acknowledgements = Acknowledgements(database, state_reader=state_reader)
        self._referring = asyncio.Semaphore(_REFERRED_AT_ONCE)
        self._stored = BatchLoader(self._store)
        self._written = BatchLoader(self._write)

    def ordering_key(self, record: Record) -> OrderingKey:
        return ordering_key_of_event(record)

    async def handle(self, record: Record) -> None:
        envelope, event = decode(record.value, DOCUMENT_EVENTS, headers=record.headers, written_at=record.written_at)
        refuse_contradicting_key(record, key_of(event))
        require_ids_of_topic(event, is_of_knowledge=record.topic == self._knowledge_topic)
        await self._load.until_next_batch()
        # A crash while handling an event must not count against a document in quarantine.
        async with self._quarantine.enter_side_by_side():
            with self._load.events.at_work(), self._load.events.timed(), mongo_errors():
                await self._event(envelope, event)

    async def _event(self, envelope: Envelope, event: Payload) -> None:
        match event:
            case DocumentEvent():
                await self._require_organization(event.organization_id)
                await self._document_event(envelope, event)
            case TagUpserted() | TagDeleted():
                await self._require_organization(event.organization_id)
                await self._tag_event(envelope, event)

    async def _require_organization(self, organization_id: str) -> None:
        if self._organizations is not None and not await self._organizations.is_known(organization_id):
            raise Rejected(
                "unknown-organization",
                f"no organization {organization_id} exists; correct organization_id, or create its first API key and "
                "send the event again",
            )

    async def _tag_event(self, envelope: Envelope, event: TagUpserted | TagDeleted) -> None:
        """Store the state of a tag. No document changes: a KB that names a deleted tag shows it as dead."""
        revision = event.revision if event.revision is not None else int(envelope.time.timestamp() * 1000)
        await tags.set_state(
            self._database,
            TagKey(event.organization_id, event.tag_id),
            revision=revision,
            deleted=isinstance(event, TagDeleted),
            name=event.name if isinstance(event, TagUpserted) else None,
        )

    async def _document_event(self, envelope: Envelope, event: DocumentEvent) -> None:
        structlog.contextvars.bind_contextvars(organization_id=event.organization_id, document_id=event.document_id)
        tracing.annotate(
            {
                "kb.organization_id": event.organization_id,
                "kb.document_id": event.document_id,
                "kb.event.type": event.TYPE,
            }
        )
        if isinstance(event, DescribedEvent) and event.metadata_warnings:
            await self._refuse_bad_metadata(envelope, event)
        await reach("fan_out.before_projection")
        with tracing.span(spans.PROJECT) as span:
            async with self._referring if _refers(event) else nullcontext():
                document, changed = await self._project(envelope, event)
            span.set({"kb.changed": changed})
        await reach("fan_out.after_projection")
        if isinstance(event, DocumentDeleted) and not document.alive:
            await citations.delete_of_document(self._database, document.key)
        await self._known_tags.register(event.organization_id, tag_ids=document.tag_ids)
        with tracing.span(spans.SELECT_KBS) as span:
            concerned = await self._concerned(document, changed=changed)
            span.set({"kb.knowledge_bases": len(concerned)})
        commands = [
            SyncDocument(
                organization_id=event.organization_id,
                kb_id=kb.kb_id,
                document_id=event.document_id,
                reason=_REASONS[type(event)],
            )
            for kb in concerned
        ]
        backlogged = {kb.kb_id for kb in concerned if await self._backlog.is_long(kb.key)}
        for queued in (False, True):
            await self._requests.request(
                [command for command in commands if (command.kb_id in backlogged) is queued],
                occurred_at=envelope.time,
                queued=queued,
            )
        log.info("event.fanned_out", type=event.TYPE, changed=changed, kbs=len(concerned))

    async def _refuse_bad_metadata(self, envelope: Envelope, event: DescribedEvent) -> None:
        """Reject an event with metadata that can't be stored if its organization wants it so.

        What the sender itself left out is no reason: kb-api has accepted such an event.
        """
        settings = await self._state_reader.settings_of(event.organization_id)
        if settings is not None and settings.strict_metadata:
            require_storable_metadata(envelope.data.get("metadata"))

    async def _project(self, envelope: Envelope, event: DocumentEvent) -> tuple[Document, bool]:
        """Apply the event to the stored state; return the state and whether the event changed it."""
        text = await self._text_of(event) if isinstance(event, OcrCompleted) else None
        text_id = text.identity if isinstance(text, NewText) else text
        for _ in range(_MAX_RACES):
            before = await self._state_reader.document(OrganizationKey(event.organization_id, event.document_id))
            state = before or Document(event.organization_id, event.document_id)
            # A text that the document refers to already is stored, and is kept while the document refers to it.
            if isinstance(text, NewText) and (state.text is None or state.text.text_id != text.identity):
                await self._stored(text)
            await reach("fan_out.after_text")
            after = apply(state, event, text_id=text_id)
            if before == after or await self._written(DocumentChange(after, _applied(envelope, event))):
                await announce_outdated(self._database, envelope, event, document=after, text_id=text_id)
                return after, before != after
        raise TransientError(f"gave up after {_MAX_RACES} conflicting writes")

    async def _text_of(self, event: OcrCompleted) -> NewText | str:
        """Return the text to store, or the id of a text that is stored already."""
        pages = [(page.page, page.start, page.end) for page in event.pages]
        text, embedding_text = event.text, event.embedding_text
        if event.text_ref is not None:
            referred = await self._find_referred(event, event.text_ref)
            pages = pages or list(referred.pages)
            embedding_text = embedding_text or referred.embedding_text
            if (tuple(pages), embedding_text) == (referred.pages, referred.embedding_text):
                return event.text_ref
            text = referred.text
            _check_parts(text, pages=pages, embedding_text=embedding_text)
        key = DocumentKey(event.organization_id, event.document_id)
        return NewText(key, text or "", pages, embedding_text=embedding_text)

    async def _store(self, texts: Sequence[NewText]) -> Mapping[NewText, None]:
        await document_texts.put_all(self._database, texts)
        return {}

    async def _write(self, changes: Sequence[DocumentChange]) -> Mapping[DocumentChange, bool]:
        return dict.fromkeys(await documents.write_all(self._database, changes), True)

    async def _find_referred(self, event: OcrCompleted, reference: str) -> document_texts.StoredText:
        # `touch` makes the text young: the sweep of unused texts must not delete it before the projection refers to it.
        # As a write it also finds a text that a majority read right after an election might not find yet.
        is_there = document_texts.belongs_to(
            reference, DocumentKey(event.organization_id, event.document_id)
        ) and await document_texts.touch(self._database, event.organization_id, reference)
        found = await self._state_reader.text(OrganizationKey(event.organization_id, reference)) if is_there else None
        if found is None:
            # The same answer for a text of another organization and for none: it tells nothing about the other one.
            raise Rejected("unknown-text-ref", "no text is stored under this text_ref for this document")
        return found

    async def _concerned(self, document: Document, *, changed: bool) -> list[KnowledgeBase]:
        """Return the KBs to send a command to: all that the event concerns; if it changed nothing, those with drift.

        A new revision of the text that is indexed already is acknowledged here, without a command.
        """
        organization_id, document_id = document.organization_id, document.document_id
        kbs, indexed, jobs = await run_three_or_cancel(
            self._state_reader.knowledge_bases_of(organization_id),
            self._state_reader.indexed_of(OrganizationKey(organization_id, document_id)),
            self._state_reader.jobs_of(OrganizationKey(organization_id, document_id)),
        )
        rows = {row.kb_id: row for row in indexed or ()}
        jobs = jobs or {}
        candidates = membership(document, kbs or (), rows.keys() | jobs.keys())
        concerned = await run_all(
            self._is_concerned(kb, document, indexed=rows.get(kb.kb_id), job=jobs.get(kb.kb_id), changed=changed)
            for kb in candidates
        )
        return [kb for kb, is_concerned in zip(candidates, concerned, strict=True) if is_concerned]

    async def _is_concerned(
        self,
        kb: KnowledgeBase,
        document: Document,
        *,
        indexed: IndexedDocument | None,
        job: IndexJobState | None,
        changed: bool,
    ) -> bool:
        action = decide(document, kb, indexed)
        if action is Action.ACKNOWLEDGE and job is None and indexed is not None:
            return not await self._acknowledgements.acknowledge(kb, document, indexed)
        return changed or _has_drift(action, job)


def _applied(envelope: Envelope, event: DocumentEvent) -> AppliedEvent:
    return AppliedEvent(
        envelope.id, event.TYPE, event.revision, tracing.current(), datetime.now(UTC), occurred_at=envelope.time
    )


def _check_parts(text: str, *, pages: Sequence[tuple[int, int, int]], embedding_text: str | None) -> None:
    """Check what an event says of a text that it refers to, as the contract checks it of a text within the event."""
    if pages and (fault := fault_of_last_page(pages[-1][2], text=text)):
        raise Rejected("bad-data", f"pages.{len(pages) - 1}.end: {fault}")
    if fault := fault_of_length(text, embedding_text=embedding_text):
        raise Rejected("bad-data", f"text: {fault}")


def _refers(event: DocumentEvent) -> bool:
    return isinstance(event, OcrCompleted) and event.text_ref is not None


def _has_drift(action: Action, job: IndexJobState | None) -> bool:
    # A job with nothing to do is left from a crash before its commands were sent. A document that waits for its text
    # has no drift only once its job says so: until then its command may be missing.
    if action is Action.WAIT:
        return job is not IndexJobState.WAITING_FOR_TEXT
    return action is not Action.NOTHING or job is not None
