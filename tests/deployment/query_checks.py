"""Compares PromQL with the series that Prometheus has: those of the services, and those of its own rules."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import promql_parser
from prometheus_client.metrics import MetricWrapperBase
from promql_parser import AggModifierType, AggregateExpr, Call, VectorSelector

from kb_shared.observability import metrics
from tests.deployment.alert_checks import alternatives_of
from tests.deployment.alert_rules import AlertingSetup
from tests.deployment.exported_metrics import ExportedSeries, exported_series

_RATES: Final = {"rate", "increase", "irate"}
_OF_COUNTERS: Final = ("_total", "_bucket", "_sum", "_count")
_ALERTS: Final = ExportedSeries(
    frozenset({"alertname", "alertstate", "severity"}), {"alertstate": frozenset({"pending", "firing"})}
)
_TOTALS: Final = {
    metric._name
    for metric in vars(metrics).values()
    if isinstance(metric, MetricWrapperBase) and "use max, not sum" in metric._documentation
}
"""Gauges of which each replica exports the total of the deployment."""


def series_in_prometheus(setup: AlertingSetup) -> dict[str, ExportedSeries]:
    """Return what can be queried: what the services export, and what Prometheus records by itself."""
    recorded = {name: ExportedSeries(frozenset(), {}) for name in setup.recorded}
    return {**exported_series(), **recorded, "ALERTS": _ALERTS}


def check_query(query: str, known: Mapping[str, ExportedSeries]) -> list[str]:
    """Return what is wrong with a query, in sentences; nothing if it fits the series."""
    try:
        expression = promql_parser.parse(query)
    except ValueError as error:
        return [f"is not PromQL: {error}"]
    return list(dict.fromkeys(_findings(expression, known)))


def labels_of_query(query: str) -> set[str]:
    """Return the labels that the answer of a query may have."""
    nodes = _nodes(promql_parser.parse(query))
    aggregations = [node for node in nodes if isinstance(node, AggregateExpr)]
    if aggregations:
        return {label for node in aggregations for label in _kept_labels(node)}
    return {matcher.name for node in nodes if isinstance(node, VectorSelector) for matcher in node.matchers.matchers}


def _findings(expression: Any, known: Mapping[str, ExportedSeries]) -> Iterator[str]:
    for node in _nodes(expression):
        match node:
            case VectorSelector():
                yield from _check_selector(node, known)
            case AggregateExpr():
                yield from _check_aggregation(node, known)
            case Call() if node.func.name in _RATES:
                yield from _check_rate(node)
            case Call() if node.func.name == "histogram_quantile":
                yield from _check_quantile(node)


def _check_selector(selector: VectorSelector, known: Mapping[str, ExportedSeries]) -> Iterator[str]:
    series = known.get(str(selector.name))
    if series is None:
        yield f"{selector.name} is exported by no service and recorded by no rule"
        return
    for matcher in selector.matchers.matchers:
        if matcher.name not in series.labels:
            yield f"{selector.name} has no label {matcher.name}"
        elif matcher.name in series.values:
            never = alternatives_of(matcher.name, matcher.value) - series.values[matcher.name]
            yield from (f"{matcher.name} of {selector.name} is never {value}" for value in sorted(never))


def _check_aggregation(aggregation: AggregateExpr, known: Mapping[str, ExportedSeries]) -> Iterator[str]:
    inside = _nodes(aggregation.expr)
    names = [str(node.name) for node in inside if isinstance(node, VectorSelector)]
    there = {label for name in names if name in known for label in known[name].labels}
    there |= {node.args[1].val for node in inside if isinstance(node, Call) and node.func.name == "label_replace"}
    if all(name in known for name in names):
        yield from (f"there is no label {label} to aggregate by" for label in _kept_labels(aggregation) - there)
    operand = aggregation.expr
    if str(aggregation.op) == "sum" and isinstance(operand, VectorSelector) and operand.name in _TOTALS:
        yield f"{operand.name} is exported by each replica: use max, not sum"


def _check_rate(call: Call) -> Iterator[str]:
    for node in _nodes(call):
        if isinstance(node, VectorSelector) and not str(node.name).endswith(_OF_COUNTERS):
            yield f"{call.func.name} of {node.name}, which is a gauge"


def _check_quantile(call: Call) -> Iterator[str]:
    inside = _nodes(call.args[1])
    if not all(str(node.name).endswith("_bucket") for node in inside if isinstance(node, VectorSelector)):
        yield "histogram_quantile needs the series that end in _bucket"
    if not all("le" in _kept_labels(node) for node in inside if isinstance(node, AggregateExpr)):
        yield "histogram_quantile needs the label le"


def _kept_labels(aggregation: AggregateExpr) -> set[str]:
    modifier = aggregation.modifier
    return set(modifier.labels) if modifier is not None and modifier.type == AggModifierType.By else set()


def _nodes(expression: Any) -> list[Any]:
    found: list[Any] = []
    promql_parser.walk(expression, pre_visit=found.append)
    return found
