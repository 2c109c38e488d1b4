"""Holds an event of a document with what came with it."""

from dataclasses import dataclass
from datetime import UTC, datetime

from kb_contracts.cloudevents import Envelope
from kb_contracts.documents import DocumentEvent
from kb_shared.mongo.documents import AppliedEvent


@dataclass(frozen=True, slots=True, eq=False)
class ArrivedEvent:
    """Event of a document with its envelope and the trace that it came in."""

    envelope: Envelope
    event: DocumentEvent
    traceparent: str

    def build_applied(self) -> AppliedEvent:
        """Build what the document remembers of an event that changed it."""
        envelope, event = self.envelope, self.event
        return AppliedEvent(
            envelope.id,
            event.TYPE,
            event.revision,
            self.traceparent,
            datetime.now(UTC),
            occurred_at=envelope.time,
        )
