"""Events of an organization: what `kb-events` carries, for clients without Kafka."""

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType

from kb_contracts.api.model import example
from kb_contracts.outcomes import KB_EVENTS

EVENT_TYPES: Final = tuple(KB_EVENTS)
"""Types of events that this version sends. Later versions may send more."""

_EVENT: Final = {
    "position": 1764130000000001,
    "id": "0b6f4d0e-9d3b-4a4e-8d21-0f6a3d0c5a11",
    "type": "document.indexed.v1",
    "source": "/kb/indexer",
    "time": "2026-01-31T12:00:00Z",
    "data": {
        "organization_id": "acme",
        "kb_id": "65f1c2a3b4d5e6f708192a3b",
        "document_id": "handbook",
        "revision": 7,
        "chunk_count": 44,
    },
}


class OutcomeEventView(BaseModel):
    """An event: a CloudEvent with its position in the list of the organization."""

    position: int = Field(
        description="Position in the list of the organization: `after` of a request that continues behind this event."
    )
    id: str = Field(description="Id of the event, by which to recognize one that was received before.")
    type: str = Field(
        description="What happened. A later version may send types that this one does not know; skip them."
    )
    source: str = Field(description="Part of the system that sent it.")
    time: datetime = Field(description="Time of the event.")
    data: dict[str, Any] = Field(description="Fields of this type of event, as on the topic `kb-events`.")


class EventList(BaseModel):
    model_config = example({"events": [_EVENT], "next_after": 1764130000000001, "has_more": False})

    events: list[OutcomeEventView] = Field(description="Events after `after`, oldest first.")
    next_after: int = Field(description="`after` of the next request. It rises also while no event meets the filters.")
    has_more: bool = Field(description="Whether there are further events already; if not, ask again later.")


class StreamedEvent(BaseModel):
    """Lines of one event: `id: ...`, `event: ...` and `data: ...`."""

    id: str = Field(description="Position of the event: the header `Last-Event-ID` of a client that connects again.")
    event: str = Field(description="Type of the event.")
    data: OutcomeEventView


_STREAMED: Final = {"id": "1764130000000001", "event": "document.indexed.v1", "data": _EVENT}
FollowedEvent = TypeAliasType("FollowedEvent", Annotated[StreamedEvent, Field(examples=[_STREAMED])])
"""One event of a stream."""
