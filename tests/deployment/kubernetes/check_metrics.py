"""Checks that PromQL in manifests fits the series that Prometheus has in Kubernetes."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from tests.deployment.known_series import KnownSeries, series_in_prometheus
from tests.deployment.kubernetes.facts import SERVICES
from tests.deployment.kubernetes.manifests import ManifestFinding
from tests.deployment.query_checks import check_query

_OF_EVERY_POD: Final = frozenset({"namespace", "pod", "service", "endpoint", "container"})
"""Labels that a ServiceMonitor adds."""


def check_queries(queries: Iterable[str], *, place: str, recorded: Iterable[str] = ()) -> Iterator[ManifestFinding]:
    """Report what is wrong with queries.

    Args:
        queries: PromQL.
        place: object that contains them.
        recorded: names of recording rules.
    """
    known = {name: _in_kubernetes(series) for name, series in series_in_prometheus(recorded).items()}
    for wrong in (each for query in queries for each in check_query(query, known)):
        yield ManifestFinding(place, wrong, "PromQL with the series of docs/reference/metrics.md")


def _in_kubernetes(series: KnownSeries) -> KnownSeries:
    if "job" not in series.labels:
        return series
    return replace(series, labels=series.labels | _OF_EVERY_POD, values={**series.values, "job": frozenset(SERVICES)})
