"""Turns a document event into one command for each KB that it concerns.

In this order: the text, the projection, the KBs, the jobs, the commands; the offset last. A crash anywhere repeats
the event, and a repeated event still sends commands for drift, so the offset serves as the outbox here.

Events of one document that come in one bundle share these steps. An event is handled only when the steps have ended
that began after it had come.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Self

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
    key_of,
)
from kb_contracts.errors import Rejected
from kb_contracts.metadata import require_storable_metadata
from kb_contracts.topics import KNOWLEDGE_DOCUMENT_EVENTS
from kb_indexer.acknowledgements import Acknowledgements
from kb_indexer.arrived_event import ArrivedEvent
from kb_indexer.consumer.backlog import Backlog
from kb_indexer.consumer.load import EventThrottle
from kb_indexer.consumer.record_keys import ordering_key_of_event, refuse_contradicting_key
from kb_indexer.consumer.reserved_ids import require_ids_of_topic
from kb_indexer.consumer.shared_handling import SharedHandling
from kb_indexer.consumer.suspect_quarantine import SuspectQuarantine
from kb_indexer.known_tags import KnownTags
from kb_indexer.project_events import Projector, split_for_projection
from kb_indexer.state_reader import StateReader
from kb_shared.concurrency.concurrent_tasks import run_all, run_three_or_cancel
from kb_shared.failpoints import reach
from kb_shared.kafka.record import OrderingKey, Record
from kb_shared.kafka.scheduling import BundleLimits
from kb_shared.membership import Action, decide, membership
from kb_shared.messaging.index_requests import IndexRequests
from kb_shared.messaging.known_organizations import KnownOrganizations
from kb_shared.mongo import tags
from kb_shared.mongo.bulk_lookup import OrganizationKey
from kb_shared.mongo.database import Database, mongo_errors
from kb_shared.mongo.document_index import IndexedDocument
from kb_shared.mongo.documents import Document
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.mongo.keys import TagKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.observability import spans, tracing

READ_AHEAD: Final = 5_000
"""Number of events of a partition that are read ahead of the first unfinished one, so that events behind a flood of
others take turns with them. An event that a crash repeats is cheap."""
TOGETHER: Final = BundleLimits(items=100, size_bytes=1024 * 1024)
"""Events of one document that are handled together. They share the commands to MongoDB."""
_REASONS: Final[dict[type[Payload], Reason]] = {
    OcrCompleted: Reason.OCR,
    TagsChanged: Reason.TAG,
    MetadataChanged: Reason.METADATA,
    DocumentDeleted: Reason.DELETED,
}

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _TagState:
    key: TagKey
    revision: int
    deleted: bool
    name: str | None

    @classmethod
    def of_event(cls, envelope: Envelope, event: TagUpserted | TagDeleted) -> Self:
        return cls(
            TagKey(event.organization_id, event.tag_id),
            revision=event.revision if event.revision is not None else int(envelope.time.timestamp() * 1000),
            deleted=isinstance(event, TagDeleted),
            name=event.name if isinstance(event, TagUpserted) else None,
        )


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
        self._projector = Projector(database, state_reader)
        self._documents: SharedHandling[bytes, ArrivedEvent] = SharedHandling(self._document_events)
        self._tags: SharedHandling[bytes, _TagState] = SharedHandling(self._store_tag)

    def ordering_key(self, record: Record) -> OrderingKey:
        return ordering_key_of_event(record)

    async def handle(self, record: Record) -> None:
        envelope, event = decode(record.value, DOCUMENT_EVENTS, headers=record.headers, written_at=record.written_at)
        refuse_contradicting_key(record, key_of(event))
        require_ids_of_topic(event, is_of_knowledge=record.topic == self._knowledge_topic)
        subject = key_of(event)
        match event:
            case DocumentEvent():
                await self._require_organization(event.organization_id)
                ids = {"organization_id": event.organization_id, "document_id": event.document_id}
                structlog.contextvars.bind_contextvars(**ids)
                tracing.annotate({**{f"kb.{name}": value for name, value in ids.items()}, "kb.event.type": event.TYPE})
                if isinstance(event, DescribedEvent) and event.metadata_warnings:
                    await self._refuse_bad_metadata(envelope, event)
                await self._documents(subject, ArrivedEvent(envelope, event, tracing.current()))
            case TagUpserted() | TagDeleted():
                await self._require_organization(event.organization_id)
                await self._tags(subject, _TagState.of_event(envelope, event))

    @asynccontextmanager
    async def _at_work(self) -> AsyncIterator[None]:
        """Wait until events may be handled, and count the block as the handling of one."""
        await self._load.until_next_batch()
        # A crash while handling an event must not count against a document in quarantine.
        async with self._quarantine.enter_side_by_side():
            with self._load.events.at_work(), self._load.events.timed(), mongo_errors():
                yield

    async def _require_organization(self, organization_id: str) -> None:
        if self._organizations is None:
            return
        with mongo_errors():
            is_known = await self._organizations.is_known(organization_id)
        if not is_known:
            raise Rejected(
                "unknown-organization",
                f"no organization {organization_id} exists; correct organization_id, or create its first API key and "
                "send the event again",
            )

    async def _refuse_bad_metadata(self, envelope: Envelope, event: DescribedEvent) -> None:
        """Reject an event with metadata that can't be stored if its organization wants it so.

        What the sender itself left out is no reason: kb-api has accepted such an event.
        """
        with mongo_errors():
            settings = await self._state_reader.settings_of(event.organization_id)
        if settings is not None and settings.strict_metadata:
            require_storable_metadata(envelope.data.get("metadata"))

    async def _store_tag(self, states: Sequence[_TagState]) -> Mapping[_TagState, Exception]:
        """Store states of a tag. No document changes: a KB that names a deleted tag shows it as dead."""
        key = states[0].key
        async with self._at_work():
            for state in dict.fromkeys(states):
                await tags.set_state(
                    self._database, key, revision=state.revision, deleted=state.deleted, name=state.name
                )
        return {}

    async def _document_events(self, events: Sequence[ArrivedEvent]) -> Mapping[ArrivedEvent, Exception]:
        """Handle events of one document; return those that are refused, each with its reason."""
        async with self._at_work():
            await reach("fan_out.before_projection")
            with tracing.span(spans.PROJECT) as span:
                document, changed_by, refused = await self._project(events)
                span.set({"kb.changed": bool(changed_by)})
            await reach("fan_out.after_projection")
            if document is not None:
                causes = changed_by or [each for each in events if each not in refused]
                await self._fan_out(document, causes, changed=bool(changed_by))
        return refused

    async def _project(
        self, events: Sequence[ArrivedEvent]
    ) -> tuple[Document | None, list[ArrivedEvent], dict[ArrivedEvent, Exception]]:
        """Apply the events; return the state after them, None if all are refused, what changed it, and the refused."""
        document: Document | None = None
        changed_by: list[ArrivedEvent] = []
        refused: dict[ArrivedEvent, Exception] = {}
        for part in split_for_projection(events):
            try:
                projection = await self._projector.project(part)
            except Rejected as error:
                refused |= dict.fromkeys(part, error)
            else:
                document = projection.document
                changed_by += projection.changed_by
        return document, changed_by, refused

    async def _fan_out(self, document: Document, causes: Sequence[ArrivedEvent], *, changed: bool) -> None:
        """Send the commands that the events in `causes` make necessary."""
        newest = causes[-1].event
        await self._known_tags.register(document.organization_id, tag_ids=document.tag_ids)
        with tracing.span(spans.SELECT_KBS) as span:
            concerned = await self._concerned(document, changed=changed)
            span.set({"kb.knowledge_bases": len(concerned)})
        commands = [
            SyncDocument(
                organization_id=document.organization_id,
                kb_id=kb.kb_id,
                document_id=document.document_id,
                reason=_REASONS[type(newest)],
            )
            for kb in concerned
        ]
        backlogged = {kb.kb_id for kb in concerned if await self._backlog.is_long(kb.key)}
        for queued in (False, True):
            await self._requests.request(
                [command for command in commands if (command.kb_id in backlogged) is queued],
                occurred_at=min(each.envelope.time for each in causes),
                queued=queued,
            )
        log.info("event.fanned_out", type=newest.TYPE, changed=changed, kbs=len(concerned), events=len(causes))

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


def _has_drift(action: Action, job: IndexJobState | None) -> bool:
    # A job with nothing to do is left from a crash before its commands were sent. A document that waits for its text
    # has no drift only once its job says so: until then its command may be missing.
    if action is Action.WAIT:
        return job is not IndexJobState.WAITING_FOR_TEXT
    return action is not Action.NOTHING or job is not None
