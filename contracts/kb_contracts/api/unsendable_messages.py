"""Messages that Kafka refused permanently. Their content is never shown."""

from datetime import datetime

from pydantic import BaseModel, Field


class UnsendableMessageView(BaseModel):
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
    unsendable_messages: list[UnsendableMessageView]
    total_count: int = Field(description="Number of items on all pages.")
