"""The query of a `$search` stage as a tree of clauses."""

import re
from dataclasses import dataclass

from kb_local.search_node.values import FilterKey


@dataclass(frozen=True, slots=True)
class FieldPath:
    name: str
    multi: str | None = None


@dataclass(frozen=True, slots=True)
class WildcardPath:
    """All indexed string fields whose path matches; `*` stands for any characters."""

    pattern: str

    def matches(self, path: str) -> bool:
        expression = ".*".join(re.escape(part) for part in self.pattern.split("*"))
        return re.fullmatch(expression, path, re.DOTALL) is not None


TextPath = FieldPath | WildcardPath


@dataclass(frozen=True, slots=True)
class Fuzzy:
    edits: int
    prefix: int
    expansions: int


@dataclass(frozen=True, slots=True)
class TextClause:
    paths: tuple[TextPath, ...]
    queries: tuple[str, ...]
    every_term: bool = False
    fuzzy: Fuzzy | None = None


@dataclass(frozen=True, slots=True)
class PhraseClause:
    paths: tuple[TextPath, ...]
    queries: tuple[str, ...]
    slop: int = 0


@dataclass(frozen=True, slots=True)
class OneOfClause:
    """A value of any of the paths is any of the keys."""

    paths: tuple[str, ...]
    keys: tuple[FilterKey, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    key: FilterKey
    inclusive: bool


@dataclass(frozen=True, slots=True)
class RangeClause:
    paths: tuple[str, ...]
    lower: Bound | None
    upper: Bound | None


@dataclass(frozen=True, slots=True)
class ExistsClause:
    path: str


@dataclass(frozen=True, slots=True)
class CompoundClause:
    must: tuple["SearchClause", ...]
    must_not: tuple["SearchClause", ...]
    should: tuple["SearchClause", ...]
    filter: tuple["SearchClause", ...]
    minimum_should_match: int = 0


@dataclass(frozen=True, slots=True)
class ScoredClause:
    """A clause whose score is multiplied, or replaced by a constant."""

    clause: "SearchClause"
    boost: float = 1.0
    constant: float | None = None


SearchClause = TextClause | PhraseClause | OneOfClause | RangeClause | ExistsClause | CompoundClause | ScoredClause
