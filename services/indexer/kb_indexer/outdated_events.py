"""Tells publishers of document events that something else stays in the place of what they sent.

Only of an event that happened after what stays: by its time, which every event has. So a topic that is read again, a
duplicate and an event that was overtaken on its way announce nothing, however many there are.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bson import ObjectId

from kb_contracts import topics
from kb_contracts.cloudevents import Payload
from kb_contracts.documents import DocumentDeleted, MetadataChanged, OcrCompleted, TagsChanged
from kb_contracts.outcomes import DocumentOutdated, Facet, OutdatedFacet
from kb_indexer.arrived_event import ArrivedEvent
from kb_indexer.source import SOURCE
from kb_shared.membership.outdated import FacetVersion, find_outdated, versions_in
from kb_shared.membership.projection import versions_of
from kb_shared.mongo import documents, outbox
from kb_shared.mongo.database import Database
from kb_shared.mongo.documents import AppliedEvent, Document

_SETS: Final[Mapping[Facet, Collection[type[Payload]]]] = {
    "text": (OcrCompleted,),
    "tags": (OcrCompleted, TagsChanged),
    "metadata": (OcrCompleted, MetadataChanged),
    "deletion": (DocumentDeleted,),
}
"""Events that set a facet."""
_OBJECT_ID_BYTES: Final = 12


@dataclass(frozen=True, slots=True)
class FoldedEvent:
    """Event, with the document after it."""

    arrived: ArrivedEvent
    document: Document
    text_id: str | None
    """Id of the text of an `OcrCompleted`."""

    def find_sent(self) -> Mapping[Facet, FacetVersion]:
        """Return the versions that it gives to facets."""
        return versions_of(self.arrived.event, text_id=self.text_id)

    def find_replaced(self) -> list[OutdatedFacet]:
        """Return the facets in whose place something else stays that no newer revision explains."""
        outdated = find_outdated(self.find_sent(), versions_in(self.document))
        return [each for each in outdated if each.by != "newer_revision"]


async def announce_outdated(database: Database, events: Sequence[FoldedEvent]) -> None:
    """Announce what of events of one document does not stay, each content once; nothing if all of it does.

    An event of which a part changed the document may have another part that does not stay.
    """
    replaced = [(each, found) for each in events if (found := each.find_replaced())]
    if not replaced:
        return
    applied = await documents.find_last_events(database, events[0].document.key)
    messages: dict[ObjectId, outbox.NewMessage] = {}
    for each, found in replaced:
        outdated = [facet for facet in found if _happened_after(each.arrived.envelope.time, facet, applied)]
        if outdated:
            message_id, message = _build_message(each, outdated)
            messages.setdefault(message_id, message)
    if messages:
        await outbox.add_once(database, messages)


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


def _build_message(folded: FoldedEvent, outdated: list[OutdatedFacet]) -> tuple[ObjectId, outbox.NewMessage]:
    envelope, event = folded.arrived.envelope, folded.arrived.event
    # The id depends on what was sent: the same content is announced once, however often it is sent.
    content = (event.organization_id, event.document_id, event.TYPE, sorted(folded.find_sent().items()))
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
        traceparent=folded.arrived.traceparent,
    )
    return ObjectId(message_id), message
