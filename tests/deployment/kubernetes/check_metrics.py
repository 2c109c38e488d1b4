"""Checks PromQL: a query parses, and names metrics and labels that the services export."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

import promql_parser

from tests.deployment.kubernetes.facts import SERVICES, metric_labels
from tests.deployment.kubernetes.manifests import ManifestFinding

ADDED_BY_PROMETHEUS: Final = frozenset({"job", "instance", "namespace", "pod", "service", "endpoint", "container"})
OWN_SERIES: Final = frozenset({"up", "ALERTS", "scrape_samples_scraped"})
"""Series that Prometheus makes itself."""


def check_query(query: str, *, place: str, recorded: Iterable[str] = ()) -> Iterator[ManifestFinding]:
    """Report each selector of a query that can never match.

    Args:
        query: PromQL.
        place: object that contains it.
        recorded: names of recording rules.
    """
    try:
        selectors = list(_selectors(promql_parser.parse(query)))
    except ValueError as error:
        yield ManifestFinding(place, f"{query!r} does not parse: {error}", "PromQL")
        return
    known = _known_labels()
    for selector in selectors:
        name = selector.name or next((each.value for each in selector.matchers.matchers if each.name == "__name__"), "")
        if name in OWN_SERIES or name in set(recorded):
            continue
        if name not in known:
            yield ManifestFinding(place, f"metric {name!r} does not exist", "a metric of docs/reference/metrics.md")
            continue
        for matcher in selector.matchers.matchers:
            if matcher.name not in known[name] | ADDED_BY_PROMETHEUS | {"__name__"}:
                yield ManifestFinding(place, f"{name} has no label {matcher.name!r}", f"one of {sorted(known[name])}")
            elif matcher.name == "job" and str(matcher.op) == "MatchOp.Equal" and matcher.value not in SERVICES:
                yield ManifestFinding(place, f"job {matcher.value!r} does not exist", f"one of {', '.join(SERVICES)}")


@cache
def _known_labels() -> dict[str, frozenset[str]]:
    return dict(metric_labels())


def _selectors(expression: Any) -> Iterator[Any]:
    """Yield all vector selectors of a parsed expression."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
    for attribute in ("expr", "lhs", "rhs", "param", "vector_selector"):
        inner = getattr(expression, attribute, None)
        if inner is not None:
            yield from _selectors(inner)
    for argument in getattr(expression, "args", None) or ():
        yield from _selectors(argument)
