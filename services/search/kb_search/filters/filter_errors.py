from typing import Literal, TypeAlias

from kb_shared.errors import RequestError

FilterErrorReason: TypeAlias = Literal["key", "operator", "value", "size", "dates"]


class FilterError(RequestError):
    """An invalid filter. Names the invalid field and says what to do about it."""

    def __init__(self, field: str, message: str, *, reason: FilterErrorReason, slug: str = "invalid-filter") -> None:
        super().__init__(422, slug, f"{field}: {message}.", extra={"fields": [{"field": field, "message": message}]})
        self.field = field
        self.reason: FilterErrorReason = reason


class FilterBuilding(RequestError):
    """A key that was just added to `filterable_metadata`; the search indexes can't filter by it yet."""

    def __init__(self, field: str) -> None:
        message = "the search indexes are being updated for this key"
        super().__init__(
            409,
            "filter-building",
            f"{field}: {message}; try again in 2 s.",
            retry_after_s=2,
            extra={"fields": [{"field": field, "message": message}]},
        )
