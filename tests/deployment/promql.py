"""Reads PromQL: which series an expression names, and which labels it groups by."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import promql_parser


class UnreadableQuery(ValueError):
    """The text is no PromQL."""


@dataclass(frozen=True, slots=True)
class SeriesSelector:
    name: str
    matchers: tuple[tuple[str, str], ...]
    """Label and value; a regular expression as it is written."""


@dataclass(frozen=True, slots=True)
class PromQuery:
    selectors: tuple[SeriesSelector, ...]
    grouped_by: frozenset[str]
    """Labels of all aggregations."""


def parse_query(text: str) -> PromQuery:
    """Return what a query reads.

    Raises:
        UnreadableQuery: with what the parser says.
    """
    try:
        root = promql_parser.parse(text)
    except ValueError as error:
        raise UnreadableQuery(f"{text!r}: {error}") from error
    nodes = list(_walk(root))
    selectors = tuple(_selector(node) for node in nodes if isinstance(node, promql_parser.VectorSelector))
    labels = (node.modifier.labels for node in nodes if isinstance(node, promql_parser.AggregateExpr) and node.modifier)
    return PromQuery(selectors, frozenset(label for each in labels for label in each))


def _walk(node: Any) -> Iterator[Any]:
    yield node
    for child in _children(node):
        yield from _walk(child)


def _children(node: Any) -> list[Any]:
    match node:
        case promql_parser.BinaryExpr():
            return [node.lhs, node.rhs]
        case promql_parser.Call():
            return list(node.args)
        case promql_parser.MatrixSelector():
            return [node.vector_selector]
        case promql_parser.AggregateExpr() | promql_parser.ParenExpr() | promql_parser.UnaryExpr():
            return [node.expr]
        case promql_parser.SubqueryExpr():
            return [node.expr]
        case _:
            return []


def _selector(node: Any) -> SeriesSelector:
    matchers = [(matcher.name, matcher.value) for matcher in node.matchers.matchers]
    return SeriesSelector(node.name or dict(matchers).get("__name__", ""), tuple(matchers))


def alternatives(value: str) -> Mapping[str, None]:
    """Return the words of a matcher, in order: `a|b` has two, and a pattern is not a word."""
    return dict.fromkeys(word for word in value.split("|") if word.replace("_", "").replace("-", "").isalnum())
