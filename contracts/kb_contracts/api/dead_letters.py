"""Dead letters: records of Kafka that could not be handled. Their content is never shown."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import BaseModel, Field, StringConstraints

from kb_contracts.api.model import NextCursor, StrictModel, example

MAX_REDRIVEN: Final = 1_000
MAX_DISCARDED: Final = 1_000
LetterWord = Annotated[str, StringConstraints(min_length=1, max_length=128)]

_DEAD_LETTER: Final = {
    "dead_letter_id": "9b2f6c1e0d4a4f7c8a5b3e2d1c0f9a8b",
    "topic": "document-events",
    "partition": 3,
    "offset": 1042,
    "document_id": "handbook",
    "reason": "unknown-text-ref",
    "detail": "no text is stored under this text_ref for this document",
    "size_bytes": 512,
    "trace_id": None,
    "occurred_at": "2026-01-31T12:00:00Z",
    "filed_at": "2026-01-31T12:00:05Z",
    "redriven_at": None,
    "redriven_by": None,
    "redriven_from": None,
    "discarded_at": None,
    "discarded_by": None,
}


class DeadLetterView(BaseModel):
    model_config = example(_DEAD_LETTER)

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
    discarded_at: datetime | None = Field(description="Time at which it was discarded; null if it was not.")
    discarded_by: str | None = Field(description="Id of the API key that discarded it.")


class DeadLetterList(BaseModel):
    model_config = example({"dead_letters": [_DEAD_LETTER], "total_count": 1, "next_cursor": None})

    dead_letters: list[DeadLetterView]
    total_count: int = Field(description="Number of items on all pages.")
    next_cursor: NextCursor


class OpenDeadLetters(BaseModel):
    reason: str = Field(description="Kind of failure, as a stable slug.")
    count: int = Field(description="Number of open dead letters.")
    oldest_at: datetime = Field(description="Time at which the oldest of them became a dead letter.")


class DeadLetterCounts(BaseModel):
    model_config = example(
        {
            "reasons": [{"reason": "unknown-text-ref", "count": 12, "oldest_at": "2026-01-31T12:00:05Z"}],
            "open_count": 12,
            "is_exact": True,
        }
    )

    reasons: list[OpenDeadLetters] = Field(description="Open dead letters by reason, the most frequent first.")
    open_count: int = Field(description="Number of dead letters that were neither redriven nor discarded.")
    is_exact: bool = Field(description="False if there are more open dead letters than are counted, 100,000.")


class RedriveDeadLetters(StrictModel):
    """Selection of open dead letters; without a field, all of them."""

    model_config = example({"reason": "unknown-text-ref"})

    topic: LetterWord | None = Field(default=None, description="Only records of this topic.")
    reason: LetterWord | None = Field(default=None, description="Only records with this reason.")
    dead_letter_ids: Annotated[list[LetterWord], Field(min_length=1, max_length=MAX_REDRIVEN)] | None = Field(
        default=None, description="Only these. An id of no open dead letter has no effect."
    )


class RedrivenDeadLetters(BaseModel):
    model_config = example({"redriven_count": 1000, "too_large_count": 2, "unreadable_count": 0, "are_more_left": True})

    redriven_count: int = Field(description="Number of records that are sent again.")
    too_large_count: int = Field(
        description="Number of selected dead letters that are larger than Kafka accepts. They stay open. Of more than "
        "100,000 open dead letters not all are examined."
    )
    unreadable_count: int = Field(
        default=0,
        description="Number of examined dead letters `unreadable-record` that still can't be read. They stay open.",
    )
    are_more_left: bool = Field(description="Whether the same request would send further ones.")


class DiscardDeadLetters(StrictModel):
    """Selection of open dead letters; without a field, all of them."""

    model_config = example({"reason": "unknown-text-ref"})

    topic: LetterWord | None = Field(default=None, description="Only records of this topic.")
    reason: LetterWord | None = Field(default=None, description="Only records with this reason.")
    dead_letter_ids: Annotated[list[LetterWord], Field(min_length=1, max_length=MAX_DISCARDED)] | None = Field(
        default=None, description="Only these. An id of no open dead letter has no effect."
    )


class DiscardedDeadLetters(BaseModel):
    model_config = example({"discarded_count": 1000, "are_more_left": True})

    discarded_count: int = Field(description="Number of dead letters that do not count as open any more.")
    are_more_left: bool = Field(description="Whether the same request would discard further ones.")
