"""The arguments of a `$search` or `$searchMeta` stage, checked by Atlas's rules."""

from dataclasses import dataclass
from typing import Any

from kb_local.search_node.arguments import Arguments
from kb_local.search_node.clauses import SearchClause
from kb_local.search_node.errors import not_implemented, search_error
from kb_local.search_node.operators import ALL_OPERATORS, parse_operator

DEFAULT_INDEX_NAME = "default"
DEFAULT_THRESHOLD = 1000
# These change how Atlas works, not what it answers.
IGNORED_KEYS = ("concurrent", "searchNodePreference", "tracking")
UNSUPPORTED_KEYS = ("facet", "highlight", "returnScope", "searchAfter", "searchBefore", "sortBetaV1")
UNSUPPORTED_SWITCHES = ("returnStoredSource", "scoreDetails")


@dataclass(frozen=True, slots=True)
class Count:
    """Count of matches: exact, or exact only up to a threshold."""

    exact: bool = False
    threshold: int = DEFAULT_THRESHOLD

    def match_counts(self, matches: int) -> dict[str, int]:
        """Return what `$$SEARCH_META` has; above the threshold no more than that there are more."""
        if self.exact:
            return {"total": matches}
        return {"lowerBound": min(matches, self.threshold + 1)}


@dataclass(frozen=True, slots=True)
class SortKey:
    """`path` is None for the score."""

    path: str | None
    descending: bool


@dataclass(frozen=True, slots=True)
class TextQuery:
    index: str
    clause: SearchClause
    count: Count
    sort: tuple[SortKey, ...] = ()


def parse_text_query(source: object) -> TextQuery:
    if not isinstance(source, dict):
        raise search_error("the argument of a search stage must be a document")
    stage = Arguments(source, "", refuse=search_error)
    for key in IGNORED_KEYS:
        stage.given(key)
    for key in UNSUPPORTED_KEYS:
        if stage.given(key) is not None:
            raise not_implemented(f"{key} of $search")
    if not any(name in source for name in ALL_OPERATORS):
        listed = ", ".join(ALL_OPERATORS)
        raise search_error(f"Query should contain either an operator [{listed}] or a collector [facet]")
    for key in UNSUPPORTED_SWITCHES:
        if stage.boolean(key, default=False):
            raise not_implemented(f"{key} of $search")
    query = TextQuery(
        index=stage.text("index") or DEFAULT_INDEX_NAME,
        count=_count(stage.child("count")) if stage.given("count") is not None else Count(),
        sort=_sort(stage.given("sort")),
        clause=parse_operator(stage),
    )
    stage.close()
    return query


def _count(source: Arguments) -> Count:
    kind = source.choice("type", ("lowerBound", "total"), default="lowerBound")
    count = Count(kind == "total", source.integer("threshold", default=DEFAULT_THRESHOLD))
    source.close()
    return count


def _sort(source: Any) -> tuple[SortKey, ...]:
    if source is None:
        return ()
    if not isinstance(source, dict) or not source:
        raise search_error('"sort" must be a document' if source != {} else '"sort" cannot be empty')
    return tuple(_sort_key(path, order) for path, order in source.items())


def _sort_key(path: str, order: Any) -> SortKey:
    if isinstance(order, dict):
        options = Arguments(order, f"sort.{path}", refuse=search_error)
        by_score = options.given("$meta")
        if by_score not in (None, "searchScore"):
            raise options.refusal("must be one of [searchScore]", "$meta")
        if options.given("noData") not in (None, "lowest"):
            raise not_implemented("noData of sort")
        # The best first by default.
        descending = _is_descending(options.given("order"), f"sort.{path}.order", default=by_score is not None)
        options.close()
        return SortKey(None if by_score else path, descending)
    return SortKey(path, _is_descending(order, f"sort.{path}", default=False))


def _is_descending(order: Any, where: str, *, default: bool) -> bool:
    if order is None:
        return default
    if isinstance(order, bool) or order not in (1, -1):
        raise search_error(f'"{where}" must be 1 or -1')
    return bool(order == -1)
