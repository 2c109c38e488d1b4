"""The operators of a `$search` stage, checked by Atlas's rules."""

from collections.abc import Callable
from typing import Any

from kb_local.search_node.arguments import Arguments
from kb_local.search_node.clauses import (
    Bound,
    CompoundClause,
    ExistsClause,
    FieldPath,
    Fuzzy,
    OneOfClause,
    PhraseClause,
    RangeClause,
    ScoredClause,
    SearchClause,
    TextClause,
    TextPath,
    WildcardPath,
)
from kb_local.search_node.errors import not_implemented, search_error
from kb_local.search_node.values import filter_key

MOST_EDITS = 2
MOST_EXPANSIONS = 1000
COMPOUND_CLAUSES = ("filter", "must", "mustNot", "should")
UNSUPPORTED_OPERATORS = (
    *("autocomplete", "embeddedDocument", "geoShape", "geoWithin", "hasAncestor", "hasRoot", "knnBeta"),
    *("moreLikeThis", "near", "queryString", "regex", "search", "span", "term", "vectorSearch", "wildcard"),
)
# What a bound of a range may be, by the kind of its key.
RANGE_KINDS = ("date", "number", "objectId", "string", "uuid")


def parse_operator(holder: Arguments) -> SearchClause:
    """Read the one operator of a document, which may hold other things too."""
    present = [name for name in ALL_OPERATORS if holder.given(name) is not None]
    names = ", ".join(ALL_OPERATORS)
    if not present:
        raise holder.refusal(f"one of [{names}] must be present")
    if len(present) > 1:
        raise holder.refusal(f"only one of [{names}] may be present")
    (name,) = present
    if name in UNSUPPORTED_OPERATORS:
        raise not_implemented(f"the operator {name} of $search")
    operator = holder.child(name)
    clause = _scored(OPERATORS[name](operator), operator)
    operator.close()
    return clause


def _text(operator: Arguments) -> SearchClause:
    if operator.given("synonyms") is not None:
        raise not_implemented("synonyms of the text operator")
    return TextClause(
        paths=_text_paths(operator),
        queries=operator.texts("query"),
        every_term=operator.choice("matchCriteria", ("all", "any"), default="any") == "all",
        fuzzy=_fuzzy(operator.child("fuzzy")) if operator.given("fuzzy") is not None else None,
    )


def _fuzzy(fuzzy: Arguments) -> Fuzzy:
    edits = fuzzy.integer("maxEdits", default=MOST_EDITS)
    if not 1 <= edits <= MOST_EDITS:
        raise fuzzy.refusal("must be either 1 or 2", "maxEdits")
    parsed = Fuzzy(
        edits=edits,
        prefix=fuzzy.integer("prefixLength", default=0),
        expansions=fuzzy.integer("maxExpansions", default=50, bounds=(1, MOST_EXPANSIONS)),
    )
    fuzzy.close()
    return parsed


def _phrase(operator: Arguments) -> SearchClause:
    if operator.given("synonyms") is not None:
        raise not_implemented("synonyms of the phrase operator")
    return PhraseClause(_text_paths(operator), operator.texts("query"), operator.integer("slop", default=0))


def _equals(operator: Arguments) -> SearchClause:
    path = operator.text("path")
    if path is None:
        raise operator.refusal("is required", "path")
    if "value" not in operator.source:
        raise operator.refusal("is required", "value")
    key = filter_key(operator.given("value"))
    if key is None:
        raise operator.refusal("must be a boolean, objectId, number, string, date, uuid, or null", "value")
    return OneOfClause((path,), (key,))


def _in(operator: Arguments) -> SearchClause:
    keys = []
    for where, value in operator.one_or_many("value"):
        key = filter_key(value)
        if key is None or key[0] == "null":
            raise search_error(f'"{where}" must be a boolean, objectId, number, string, date, or uuid')
        keys.append(key)
    if len({kind for kind, _ in keys}) > 1:
        raise operator.refusal("must have elements of the same type", "value")
    return OneOfClause(_paths(operator), tuple(keys))


def _range(operator: Arguments) -> SearchClause:
    lower = _bound(operator, exclusive="gt", inclusive="gte")
    upper = _bound(operator, exclusive="lt", inclusive="lte")
    if lower is None and upper is None:
        raise operator.refusal("must specify at least one of [lt, lte, gt, gte]")
    if lower is not None and upper is not None and lower.key[0] != upper.key[0]:
        raise operator.refusal("bounds must be of the same type")
    if lower is not None and upper is not None:
        _check_order(operator, lower, upper=upper)
    return RangeClause(_paths(operator), lower, upper)


def _check_order(operator: Arguments, lower: Bound, *, upper: Bound) -> None:
    if lower.key[1] > upper.key[1]:
        raise operator.refusal("gt/gte must not be greater than lt/lte")
    if lower.key[1] == upper.key[1] and not (lower.inclusive and upper.inclusive):
        raise operator.refusal("bounds must both be inclusive if they are equal")


def _bound(operator: Arguments, *, exclusive: str, inclusive: str) -> Bound | None:
    found = [name for name in (exclusive, inclusive) if operator.given(name) is not None]
    if len(found) > 1:
        raise operator.refusal(f"at most one of [{exclusive}, {inclusive}] may be present")
    if not found:
        return None
    key = filter_key(operator.given(found[0]))
    if key is not None and key[0] == "boolean":
        raise operator.refusal("range operator does not support BOOLEAN point type")
    if key is None or key[0] not in RANGE_KINDS:
        raise operator.refusal("must be a number, date, string, objectId or uuid", found[0])
    return Bound(key, inclusive=found[0] == inclusive)


def _exists(operator: Arguments) -> SearchClause:
    path = operator.text("path")
    if path is None:
        raise operator.refusal("is required", "path")
    return ExistsClause(path)


def _compound(operator: Arguments) -> SearchClause:
    if all(operator.given(name) is None for name in COMPOUND_CLAUSES):
        raise operator.refusal(f"at least one of [{', '.join(COMPOUND_CLAUSES)}] must be present")
    clauses = {name: _clauses(operator, name) for name in COMPOUND_CLAUSES}
    if not any(clauses.values()):
        raise operator.refusal("must have at least one clause")
    at_least = operator.integer("minimumShouldMatch", default=0)
    if operator.has("minimumShouldMatch") and not operator.has("should"):
        raise operator.refusal("should clause must not be empty when using minimumShouldMatch")
    if at_least > len(clauses["should"]):
        raise operator.refusal("minimumShouldMatch cannot be greater than number of should clauses")
    return CompoundClause(clauses["must"], clauses["mustNot"], clauses["should"], clauses["filter"], at_least)


def _clauses(operator: Arguments, name: str) -> tuple[SearchClause, ...]:
    # An empty list is the same as none.
    if operator.given(name) in (None, []):
        return ()
    clauses = []
    for where, source in operator.one_or_many(name):
        holder = operator.element(where, source)
        clauses.append(parse_operator(holder))
        holder.close()
    return tuple(clauses)


def _scored(clause: SearchClause, operator: Arguments) -> SearchClause:
    if operator.given("score") is None:
        return clause
    score = operator.child("score")
    present = [kind for kind in ("boost", "constant", "function", "dismax") if score.given(kind) is not None]
    if len(present) != 1:
        must = "one of {} must be present" if not present else "only one of {} may be present"
        raise score.refusal(must.format("[boost, constant, function]"))
    (kind,) = present
    if kind in ("function", "dismax"):
        raise not_implemented(f"{kind} as a score")
    argument = score.child(kind)
    if argument.given("path") is not None:
        raise not_implemented("a boost by a path")
    value = argument.number("value")
    if value is None:
        raise argument.refusal("is required", "value")
    if value < 0:
        raise argument.refusal("cannot be negative", "value")
    argument.close()
    score.close()
    return ScoredClause(clause, boost=value) if kind == "boost" else ScoredClause(clause, constant=value)


def _paths(operator: Arguments) -> tuple[str, ...]:
    paths = []
    for path in _text_paths(operator):
        if isinstance(path, WildcardPath):
            raise operator.refusal("is required", "path.value")
        if path.multi is not None:
            raise operator.refusal("multi field not permitted for this operator")
        paths.append(path.name)
    return tuple(paths)


def _text_paths(operator: Arguments) -> tuple[TextPath, ...]:
    return tuple(_text_path(operator, where, source=source) for where, source in operator.one_or_many("path"))


def _text_path(operator: Arguments, where: str, *, source: Any) -> TextPath:
    if isinstance(source, str):
        return FieldPath(source)
    if not isinstance(source, dict):
        raise search_error(f'"{where}" must be a document or string')
    path = operator.element(where, source)
    name, wildcard, multi = path.given("value"), path.given("wildcard"), path.given("multi")
    path.close()
    if isinstance(wildcard, str):
        if multi is not None:
            raise path.refusal("multi cannot be defined along with wildcard")
        if "*" not in wildcard:
            raise path.refusal('must contain a "*"', "wildcard")
        if "**" in wildcard:
            raise path.refusal('cannot contain more than 1 "*" next to each other', "wildcard")
        return WildcardPath(wildcard)
    if not isinstance(name, str):
        raise path.refusal("is required" if name is None else "must be a string", "value")
    return FieldPath(name, multi)


OPERATORS: dict[str, Callable[[Arguments], SearchClause]] = {
    "compound": _compound,
    "equals": _equals,
    "exists": _exists,
    "in": _in,
    "phrase": _phrase,
    "range": _range,
    "text": _text,
}
ALL_OPERATORS = tuple(sorted((*OPERATORS, *UNSUPPORTED_OPERATORS)))
