"""Reads PromQL: the nodes of a query, the series that it names, and the labels of its answer."""

from typing import Any

import promql_parser
from promql_parser import AggModifierType, AggregateExpr, VectorSelector


def nodes_of(expression: Any) -> list[Any]:
    """Return an expression and all expressions in it."""
    found: list[Any] = []
    promql_parser.walk(expression, pre_visit=found.append)
    return found


def names_in(expression: Any) -> set[str]:
    """Return the names of all series in an expression."""
    return {name_of(node) for node in nodes_of(expression) if isinstance(node, VectorSelector)}


def names_in_query(query: str) -> set[str]:
    """Return the names of all series in a query.

    Raises:
        ValueError: it is no PromQL.
    """
    return names_in(promql_parser.parse(query))


def labels_of_query(query: str) -> set[str]:
    """Return the labels that the answer of a query may have.

    Raises:
        ValueError: it is no PromQL.
    """
    nodes = nodes_of(promql_parser.parse(query))
    aggregations = [node for node in nodes if isinstance(node, AggregateExpr)]
    if aggregations:
        return {label for node in aggregations for label in labels_of(node) if keeps(node, label)}
    return {label for node in nodes if isinstance(node, VectorSelector) for label, _ in matchers_of(node)}


def name_of(selector: VectorSelector) -> str:
    """Return the name of the series; an empty one if other labels alone select them."""
    named = (matcher.value for matcher in selector.matchers.matchers if matcher.name == "__name__")
    return str(selector.name or next(named, ""))


def matchers_of(selector: VectorSelector) -> list[tuple[str, str]]:
    """Return each label and value that select series, beside the name; a regular expression as it is written."""
    return [(matcher.name, matcher.value) for matcher in selector.matchers.matchers if matcher.name != "__name__"]


def values_in_matcher(label: str, value: str) -> set[str]:
    """Return the values that a matcher names: `a|b` has two, a pattern none, and the bound of a bucket is one value."""
    if label == "le":
        return {value}
    return {word for word in value.split("|") if word.replace("_", "").replace("-", "").isalnum()}


def labels_of(aggregation: AggregateExpr) -> set[str]:
    """Return the labels that it names, after `by` or `without`."""
    return set(aggregation.modifier.labels) if aggregation.modifier is not None else set()


def keeps(aggregation: AggregateExpr, label: str) -> bool:
    """Return whether the result still has a label."""
    modifier = aggregation.modifier
    return modifier is not None and (label in modifier.labels) == (modifier.type == AggModifierType.By)
