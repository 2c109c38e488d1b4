"""Position at which a page ended, in a list that is sorted by a time, newest first, and by ids among equal times."""

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from kb_shared.mongo.database import Row


@dataclass(frozen=True, slots=True)
class TimePosition:
    at: datetime
    row_id: str

    def __str__(self) -> str:
        return f"{self.at.isoformat()} {self.row_id}"

    @classmethod
    def parse(cls, position: str) -> Self:
        """Read what `str` returned."""
        at, _, row_id = position.partition(" ")
        return cls(datetime.fromisoformat(at), row_id)

    def build_condition(self, time_field: str, row_id: object) -> Row:
        """Build the condition for the rows after this one; `row_id` is its id as it is stored."""
        return {
            "$or": [{time_field: {"$lt": self.at}}, {time_field: self.at, "_id": {"$gt": row_id}}],
        }
