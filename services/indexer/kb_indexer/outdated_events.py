"""Tells publishers of document events that something else stays in the place of what they sent.

Only of an event that happened after what stays: by its time, which every event has. So a topic that is read again, a
duplicate and an event that was overtaken on its way announce nothing, however many there are.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from bson import ObjectId

from kb_contracts import topics
from kb_contracts.cloudevents import Envelope, Payload
from kb_contracts.documents import DocumentDeleted, DocumentEvent, MetadataChanged, OcrCompleted, TagsChanged
from kb_contracts.outcomes import DocumentOutdated, Facet, OutdatedFacet
from kb_indexer.source import SOURCE
from kb_shared.membership.outdated import FacetVersion, find_outdated, versions_in
from kb_shared.membership.projection import versions_of
from kb_shared.mongo import documents, outbox
from kb_shared.mongo.database import Database
from kb_shared.mongo.documents import AppliedEvent, Document
from kb_shared.observability import tracing

_SETS: Final[Mapping[Facet, Collection[type[Payload]]]] = {
    "text": (OcrCompleted,),
    "tags": (OcrCompleted, TagsChanged),
    "metadata": (OcrCompleted, MetadataChanged),
    "deletion": (DocumentDeleted,),
}
"""Events that set a facet."""
_OBJECT_ID_BYTES: Final = 12


async def announce_outdated(
    database: Database, envelope: Envelope, event: DocumentEvent, *, document: Document, text_id: str | None
) -> None:
    """Announce what of an event does not stay, once; nothing if all of it does.

    Args:
        document: the document after the event.
        text_id: id of the text of an `OcrCompleted`.
    """
    sent = versions_of(event, text_id=text_id)
    outdated = [each for each in find_outdated(sent, versions_in(document)) if each.by != "newer_revision"]
    if not outdated:
        return
    applied = await documents.find_last_events(database, document.key)
    if any(each.event_id == envelope.id for each in applied):
        return
    outdated = [each for each in outdated if _happened_after(envelope.time, each, applied)]
    if outdated:
        await _add(database, envelope, event, sent=sent, outdated=outdated)


def _happened_after(time: datetime, outdated: OutdatedFacet, applied: Sequence[AppliedEvent]) -> bool:
    """Return whether an event happened after what stays in its place, or in the same millisecond.

    False if what stays was followed by so many changes that its time is not known any more.
    """
    stays: Facet = "deletion" if outdated.by == "deletion" else outdated.facet
    types = {each.TYPE for each in _SETS[stays]}
    times = [
        each.occurred_at or each.applied_at
        for each in applied
        if each.type in types and each.revision == outdated.revision
    ]
    return bool(times) and time >= times[0]


async def _add(
    database: Database,
    envelope: Envelope,
    event: DocumentEvent,
    *,
    sent: Mapping[Facet, FacetVersion],
    outdated: list[OutdatedFacet],
) -> None:
    # The id depends on what was sent: the same content is announced once, however often it is sent.
    content = (event.organization_id, event.document_id, event.TYPE, sorted(sent.items()))
    message_id = hashlib.sha256(repr(content).encode()).digest()[:_OBJECT_ID_BYTES]
    announcement = DocumentOutdated(
        organization_id=event.organization_id,
        document_id=event.document_id,
        revision=event.revision,
        event_id=envelope.id,
        event_type=event.TYPE,
        outdated=outdated,
    )
    message = outbox.NewMessage(
        announcement,
        topic=topics.KB_EVENTS.name,
        key=event.organization_id,
        ordering=f"outdated/{message_id.hex()}",
        seq=0,
        source=SOURCE,
        traceparent=tracing.current(),
    )
    await outbox.add_once(database, message, message_id=ObjectId(message_id))
