"""Compares PromQL with the series that Prometheus has: those of the services, and those of its own rules."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import promql_parser
from promql_parser import AggregateExpr, Call, VectorSelector

from tests.deployment.known_series import KnownSeries
from tests.deployment.promql import keeps, labels_of, matchers_of, name_of, names_in, nodes_of, values_in_matcher

_RATES: Final = {"rate", "increase", "irate"}


def check_query(query: str, known: Mapping[str, KnownSeries]) -> list[str]:
    """Return what is wrong with a query, in sentences; nothing if it fits the series."""
    try:
        expression = promql_parser.parse(query)
    except ValueError as error:
        return [f"is not PromQL: {error}"]
    return list(dict.fromkeys(_findings(expression, known)))


def _findings(expression: Any, known: Mapping[str, KnownSeries]) -> Iterator[str]:
    for node in nodes_of(expression):
        match node:
            case VectorSelector():
                yield from _check_selector(node, known)
            case AggregateExpr():
                yield from _check_aggregation(node, known)
            case Call() if node.func.name in _RATES:
                yield from _check_rate(node, known)
            case Call() if node.func.name == "histogram_quantile":
                yield from _check_quantile(node, known)


def _check_selector(selector: VectorSelector, known: Mapping[str, KnownSeries]) -> Iterator[str]:
    name = name_of(selector)
    series = known.get(name)
    if series is None:
        yield f"{name} is exported by no service and recorded by no rule"
        return
    for label, value in matchers_of(selector):
        if label not in series.labels:
            yield f"{name} has no label {label}"
        elif label in series.values:
            never = values_in_matcher(label, value) - series.values[label]
            yield from (f"{label} of {name} is never {each}" for each in sorted(never))


def _check_aggregation(aggregation: AggregateExpr, known: Mapping[str, KnownSeries]) -> Iterator[str]:
    operand = aggregation.expr
    names = names_in(operand)
    if names <= known.keys():
        there = {label for name in names for label in known[name].labels} | _added_labels(operand)
        yield from (f"groups by {label}, which no series of it has" for label in sorted(labels_of(aggregation) - there))
    if str(aggregation.op) == "sum" and isinstance(operand, VectorSelector):
        yield from (
            f"{name} is exported by each replica: use max, not sum"
            for name in names
            if name in known and known[name].is_total
        )


def _added_labels(expression: Any) -> set[str]:
    calls = [node for node in nodes_of(expression) if isinstance(node, Call)]
    return {call.args[1].val for call in calls if call.func.name == "label_replace"}


def _check_rate(call: Call, known: Mapping[str, KnownSeries]) -> Iterator[str]:
    for name in sorted(names_in(call)):
        if name in known and not known[name].is_counter:
            yield f"{call.func.name} of {name}, which is a gauge"


def _check_quantile(call: Call, known: Mapping[str, KnownSeries]) -> Iterator[str]:
    histogram = call.args[1]
    if not all("le" in known[name].labels for name in names_in(histogram) if name in known):
        yield "histogram_quantile needs the series that end in _bucket"
    if not all(keeps(node, "le") for node in nodes_of(histogram) if isinstance(node, AggregateExpr)):
        yield "histogram_quantile needs the label le"
