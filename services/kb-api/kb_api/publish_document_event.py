"""Publishes document events of upstreams that use HTTP instead of Kafka. An event is durable before the response."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kb_api import document_revisions
from kb_api.document_tags import DocumentTags
from kb_api.expected_effect import ExpectedEffect, expected_effect
from kb_api.message_limits import MessageLimits
from kb_api.reserved_ids import require_own_ids
from kb_api.source import SOURCE
from kb_api.stored_bytes import StoredBytes
from kb_contracts import topics
from kb_contracts.cloudevents import MAX_EVENT_BYTES, encode
from kb_contracts.documents import DescribedEvent, DocumentEvent, MetadataChanged, OcrCompleted, TagsChanged, key_of
from kb_contracts.metadata import MetadataWarning
from kb_shared.errors import NotFound, RequestError
from kb_shared.http.changes import ChangeAnswer, commit_change
from kb_shared.http.problems import invalid_fields
from kb_shared.kafka.producer import ProducerMessage
from kb_shared.kafka.record_size import record_bytes
from kb_shared.membership.outdated import versions_in
from kb_shared.membership.projection import versions_of
from kb_shared.messaging.outbox_relay import headers_of_ours
from kb_shared.mongo import document_texts, documents, organizations, outbox
from kb_shared.mongo.database import Database, MongoSession
from kb_shared.mongo.documents import Document
from kb_shared.mongo.keys import DocumentKey
from kb_shared.observability import tracing

_MARGIN_BYTES: Final = 32
"""Bytes by which an event can still grow: its revision is not known yet, and its time may get longer."""


@dataclass(frozen=True, slots=True)
class Published:
    """An event that is certain to be published."""

    revision: int
    effect: ExpectedEffect
    warnings: Sequence[MetadataWarning] = ()
    """Parts of the metadata that were left out of the event."""


class DocumentEventPublisher:
    """Stores document events in the outbox."""

    def __init__(
        self,
        database: Database,
        *,
        stored_bytes: StoredBytes,
        document_tags: DocumentTags,
        message_limits: MessageLimits,
    ) -> None:
        self._database = database
        self._document_tags = document_tags
        self._stored_bytes = stored_bytes
        self._message_limits = message_limits

    async def publish(
        self,
        event: DocumentEvent,
        *,
        revision: int | None,
        answer: Callable[[Published], ChangeAnswer] | None = None,
    ) -> Published:
        """Store an event for publication, with `revision` or with the last known one plus 1.

        Args:
            event: an event whose own revision is replaced.
            revision: revision of the event; None: the next one.
            answer: makes what `commit_change` records.

        Raises:
            NotFound: the event changes a document that is not known.
            RequestError: 413 `event-too-large`, 422 `unknown-text-ref`, `reserved-id`, `validation-error` for metadata
                that were left out if the organization is strict, 409 `no-greater-revision`, `quota-exceeded`.
        """
        await self._check(event)
        key = DocumentKey(event.organization_id, event.document_id)
        sent = versions_of(event, text_id=_text_id(event, key))

        async def store(session: MongoSession) -> Published:
            document = await documents.find(self._database, key, session=session)
            before = await document_revisions.find_versions(self._database, session, key)
            accepted = await document_revisions.accept(
                self._database,
                session,
                key,
                revision=revision,
                projected=_greatest_revision(document),
                digests={facet: version.digest for facet, version in sent.items()},
            )
            if accepted is None:
                raise RequestError(
                    409,
                    "no-greater-revision",
                    "The document has the greatest possible revision (2^63 - 1). Send the revision yourself.",
                )
            if document is None and accepted.seq == 1 and not isinstance(event, OcrCompleted):
                raise NotFound("document")
            numbered = event.model_copy(update={"revision": accepted.revision})
            await outbox.add(self._database, session, [_build_message(numbered, seq=accepted.seq)])
            effect = expected_effect(
                {facet: replace(version, revision=accepted.revision) for facet, version in sent.items()},
                projected={} if document is None else versions_in(document),
                accepted=before,
            )
            return Published(accepted.revision, effect, _warnings_of(event))

        return await commit_change(self._database, store, answer=answer)

    async def _check(self, event: DocumentEvent) -> None:
        require_own_ids(event)
        self._check_size(event)
        await self._refuse_bad_metadata(event)
        if isinstance(event, OcrCompleted) and event.text is not None:
            await self._stored_bytes.require_quota(event.organization_id)
        if isinstance(event, OcrCompleted) and event.text_ref is not None:
            belongs = document_texts.belongs_to(event.text_ref, DocumentKey(event.organization_id, event.document_id))
            if not belongs or not await document_texts.touch(self._database, event.organization_id, event.text_ref):
                raise RequestError(
                    422,
                    "unknown-text-ref",
                    "No text is stored under this text_ref for this document; PUT /documents/{document_id}/text first.",
                )
        if isinstance(event, OcrCompleted | TagsChanged):
            await self._document_tags.register(event.organization_id, tag_ids=event.tag_ids)

    async def _refuse_bad_metadata(self, event: DocumentEvent) -> None:
        if not (warnings := _warnings_of(event)):
            return
        if (await organizations.find_settings(self._database, event.organization_id)).strict_metadata:
            raise invalid_fields([each.model_dump() for each in warnings])

    def _check_size(self, event: DocumentEvent) -> None:
        """Refuse an event that could not be published: Kafka limits the record, the contract its value."""
        value = encode(event, source=SOURCE)
        record = ProducerMessage(topics.DOCUMENT_EVENTS.name, key_of(event), value, headers_of_ours(tracing.current()))
        too_many_bytes = max(
            len(value) + _MARGIN_BYTES - MAX_EVENT_BYTES,
            record_bytes(record) + _MARGIN_BYTES - self._message_limits.get_limit(topics.DOCUMENT_EVENTS),
        )
        if too_many_bytes > 0:
            raise RequestError(
                413,
                "event-too-large",
                f"The event has {len(value)} bytes and may have {len(value) - too_many_bytes}. "
                + _how_to_send_less(event, too_many_bytes),
            )


def _build_message(event: DocumentEvent, *, seq: int) -> outbox.NewMessage:
    return outbox.NewMessage(
        event,
        topic=topics.DOCUMENT_EVENTS.name,
        key=key_of(event).decode(),
        ordering=f"document/{event.organization_id}/{event.document_id}",
        seq=seq,
        source=SOURCE,
        traceparent=tracing.current(),
    )


def _text_id(event: DocumentEvent, key: DocumentKey) -> str | None:
    """Return the id of the text of an event; None if it depends on a stored text that would have to be read."""
    if not isinstance(event, OcrCompleted):
        return None
    pages = [(page.page, page.start, page.end) for page in event.pages]
    if event.text_ref is not None:
        return None if pages or event.embedding_text else event.text_ref
    return document_texts.text_id(key, event.text or "", pages, embedding_text=event.embedding_text)


def _how_to_send_less(event: DocumentEvent, too_many_bytes: int) -> str:
    text = event.text if isinstance(event, OcrCompleted) else None
    if text is not None and len(text.encode()) > too_many_bytes:
        return "Store the text with PUT /documents/{document_id}/text and send its text_ref."
    match event:
        case OcrCompleted():
            return "Send less metadata, fewer pages or fewer tags; a text can be stored and sent by its text_ref."
        case TagsChanged():
            return "Send fewer tags."
        case MetadataChanged():
            return "Send less metadata."
    return "An operator has to raise max.message.bytes of the topic document-events."


def _warnings_of(event: DocumentEvent) -> Sequence[MetadataWarning]:
    return (event.metadata_warnings or ()) if isinstance(event, DescribedEvent) else ()


def _greatest_revision(document: Document | None) -> int | None:
    if document is None:
        return None
    facets = (document.text, document.tags, document.metadata)
    revisions = [facet.revision for facet in facets if facet is not None]
    return max([*revisions, *([] if document.deleted_revision is None else [document.deleted_revision])], default=None)
