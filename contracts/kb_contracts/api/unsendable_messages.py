"""Messages that Kafka refused permanently. Their content is never shown."""

from datetime import datetime
from typing import Final

from pydantic import BaseModel, Field

from kb_contracts.api.model import NextCursor, example

_MESSAGE: Final = {
    "message_id": "65f1c2a3b4d5e6f708192a40",
    "topic": "document-events",
    "document_id": "handbook",
    "reason": "too-large",
    "size_bytes": 1048999,
    "trace_id": None,
    "created_at": "2026-01-31T12:00:00Z",
    "unsendable_at": "2026-01-31T12:00:05Z",
    "redriven_at": None,
    "redriven_by": None,
}


class UnsendableMessageView(BaseModel):
    model_config = example(_MESSAGE)

    message_id: str
    topic: str = Field(description="Kafka topic of the message.")
    document_id: str | None = Field(description="Id of the document, if the message concerns one.")
    reason: str = Field(description="Kind of refusal: `too-large` or `invalid-record`.")
    size_bytes: int = Field(description="Size of the whole record: key, value, headers and the overhead of Kafka.")
    trace_id: str | None = Field(description="Id of the W3C trace of the message; null if it has none.")
    created_at: datetime
    unsendable_at: datetime | None = Field(
        description="Time at which Kafka refused the message; null while it waits to be sent again."
    )
    redriven_at: datetime | None = Field(
        description="Time at which it was last requested to send the message again; null if never."
    )
    redriven_by: str | None = Field(description="Id of the API key that requested it.")


class UnsendableMessageList(BaseModel):
    model_config = example({"unsendable_messages": [_MESSAGE], "total_count": 1, "next_cursor": None})

    unsendable_messages: list[UnsendableMessageView]
    total_count: int = Field(description="Number of items on all pages.")
    next_cursor: NextCursor
