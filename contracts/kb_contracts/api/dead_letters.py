"""Dead letters: records of Kafka that could not be handled. Their content is never shown."""

from datetime import datetime

from pydantic import BaseModel, Field


class DeadLetterView(BaseModel):
    dead_letter_id: str
    topic: str = Field(description="Kafka topic from which the record was read.")
    partition: int
    offset: int
    document_id: str | None = Field(description="Id of the document, if the record names one.")
    reason: str = Field(description="Kind of failure, as a stable slug.")
    detail: str = Field(description="Explanation of the failure, without content of the record.")
    size_bytes: int | None = Field(description="Size of the record; null if it is not known.")
    trace_id: str | None = Field(description="Id of the W3C trace of the record; null if it has none.")
    occurred_at: datetime | None = Field(description="Timestamp of the record in Kafka.")
    filed_at: datetime = Field(description="Time at which the record became a dead letter.")
    redriven_at: datetime | None = Field(description="Time at which the record was sent again; null if it was not.")
    redriven_by: str | None = Field(description="Id of the API key that sent the record again.")
    redriven_from: str | None = Field(
        description="Id of the earlier dead letter that was redriven and failed again as this one."
    )


class DeadLetterList(BaseModel):
    dead_letters: list[DeadLetterView]
    total_count: int = Field(description="Number of items on all pages.")
