"""Options of a search as they are in the address of its page, and as the API takes them."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal, TypeAlias

from fastapi import Depends, Query
from pydantic import BeforeValidator, Field

from kb_console.typed_words import split_words
from kb_contracts.api.search import MAX_NEIGHBORS, MAX_QUERY_CHARACTERS, MAX_TOKENS, MAX_TOP_K

SearchedBy: TypeAlias = Literal["hybrid", "vector", "text"]
KeptBy: TypeAlias = Literal["similarity", "recency", "balanced"]
MODES: Final = [("hybrid", "meaning and words"), ("vector", "meaning"), ("text", "words")]
PRIORITIES: Final = [("similarity", "similarity"), ("recency", "newness"), ("balanced", "both")]
OPERATORS: Final = [
    ("$eq", "is"),
    ("$ne", "is not"),
    ("$in", "is one of"),
    ("$nin", "is none of"),
    ("$gt", "is above"),
    ("$gte", "is at least"),
    ("$lt", "is below"),
    ("$lte", "is at most"),
]
_OF_LISTS: Final = frozenset({"$in", "$nin"})
_MOST_ROWS: Final = 20
_MOST_DOCUMENTS: Final = 200


def _empty_is_none(value: object) -> object:
    """Return None for what a browser sends of a field that is left empty."""
    return None if value == "" else value


_Neighbors: TypeAlias = Annotated[
    Annotated[int, Field(ge=0, le=MAX_NEIGHBORS)] | None, BeforeValidator(_empty_is_none), Query()
]
_TokenLimit: TypeAlias = Annotated[
    Annotated[int, Field(ge=1, le=MAX_TOKENS)] | None, BeforeValidator(_empty_is_none), Query()
]
_LeastScore: TypeAlias = Annotated[Annotated[float, Field(ge=0, le=1)] | None, BeforeValidator(_empty_is_none), Query()]


@dataclass(frozen=True, slots=True)
class FilterRow:
    """A condition on a metadata key."""

    key: str
    operator: str
    value: str


@dataclass(frozen=True, slots=True)
class SearchOptions:
    q: str = ""
    mode: SearchedBy = "hybrid"
    top_k: int = 5
    neighbors: int | None = None
    """None: as many as the knowledge base says."""
    min_score: float | None = None
    max_tokens: int | None = None
    priority: KeptBy = "similarity"
    document_ids: tuple[str, ...] = ()
    name: str = ""
    """Part of the name of documents."""
    tags: str = ""
    since: str = ""
    until: str = ""
    rows: list[FilterRow] = field(default_factory=list)

    def arguments(self) -> dict[str, Any]:
        """Return the options that were chosen, as a search takes them; those that were not are left out."""
        chosen: dict[str, Any] = {
            "document_ids": list(self.document_ids) or None,
            "tag_ids": split_words(self.tags) or None,
            "metadata_filter": self.metadata_filter(),
            "upload_date_from": f"{self.since}T00:00:00Z" if self.since else None,
            "upload_date_to": f"{self.until}T23:59:59.999Z" if self.until else None,
            "min_score": self.min_score,
            "coalesce_neighbors": self.neighbors,
            "max_tokens": self.max_tokens,
            "prioritize_by": None if self.priority == "similarity" else self.priority,
        }
        given = {name: value for name, value in chosen.items() if value is not None}
        return {"top_k": self.top_k, "mode": self.mode, **given}

    def metadata_filter(self) -> dict[str, Any] | None:
        """Return the filter that the rows and the name make together; None without any."""
        conditions: list[dict[str, Any]] = [_condition(row) for row in self.rows]
        if self.name.strip():
            conditions.append({"document_name": {"$contains": self.name.strip()}})
        if not conditions:
            return None
        times = Counter(key for condition in conditions for key in condition)
        if max(times.values()) > 1:
            return {"$and": conditions}
        return {key: value for condition in conditions for key, value in condition.items()}

    def is_filtered(self) -> bool:
        return bool(self.document_ids or self.name or self.tags or self.since or self.until or self.rows)


@dataclass(frozen=True, slots=True)
class ComparedOptions:
    """Options in which the second of two searches differs."""

    compare: bool = False
    kb_id: str = ""
    """Empty: the same knowledge base."""
    mode: SearchedBy = "hybrid"
    neighbors: int | None = None
    min_score: float | None = None

    def apply_to(self, options: SearchOptions) -> SearchOptions:
        return replace(options, mode=self.mode, neighbors=self.neighbors, min_score=self.min_score)


async def _read_options(
    *,
    q: Annotated[str, Query(max_length=MAX_QUERY_CHARACTERS)] = "",
    mode: SearchedBy = "hybrid",
    top_k: Annotated[int, Query(ge=1, le=MAX_TOP_K)] = 5,
    neighbors: _Neighbors = None,
    min_score: _LeastScore = None,
    max_tokens: _TokenLimit = None,
    priority: KeptBy = "similarity",
    document_ids: Annotated[Sequence[str], Query(max_length=_MOST_DOCUMENTS)] = (),
    name: Annotated[str, Query(max_length=200)] = "",
    tags: Annotated[str, Query(max_length=5_000)] = "",
    since: Annotated[str, Query(pattern=r"^(\d{4}-\d{2}-\d{2})?$")] = "",
    until: Annotated[str, Query(pattern=r"^(\d{4}-\d{2}-\d{2})?$")] = "",
    key: Annotated[Sequence[str], Query(max_length=_MOST_ROWS)] = (),
    op: Annotated[Sequence[str], Query(max_length=_MOST_ROWS)] = (),
    value: Annotated[Sequence[str], Query(max_length=_MOST_ROWS)] = (),
) -> SearchOptions:
    rows = [FilterRow(*row) for row in zip(key, op, value, strict=False) if row[0].strip()]
    # Those that were marked in the list, and those that were typed.
    chosen = tuple(dict.fromkeys(word for given in document_ids for word in split_words(given)))
    return SearchOptions(
        q, mode, top_k, neighbors, min_score, max_tokens, priority, chosen, name, tags, since, until, rows
    )


async def _read_compared(
    *,
    compare: bool = False,
    b_kb: Annotated[str, Query(max_length=100)] = "",
    b_mode: SearchedBy = "hybrid",
    b_neighbors: _Neighbors = None,
    b_min_score: _LeastScore = None,
) -> ComparedOptions:
    return ComparedOptions(compare, b_kb, b_mode, b_neighbors, b_min_score)


def _condition(row: FilterRow) -> dict[str, Any]:
    if row.operator in _OF_LISTS:
        return {row.key.strip(): {row.operator: [_parse(part.strip()) for part in row.value.split(",")]}}
    value = _parse(row.value.strip())
    return {row.key.strip(): value if row.operator == "$eq" else {row.operator: value}}


def _parse(text: str) -> str | float | bool | dict[str, str]:
    """Return a number, a boolean or a date that is written as in JSON; everything else is text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (str, int, float, bool, dict)) else text


GivenOptions: TypeAlias = Annotated[SearchOptions, Depends(_read_options)]
GivenComparison: TypeAlias = Annotated[ComparedOptions, Depends(_read_compared)]
