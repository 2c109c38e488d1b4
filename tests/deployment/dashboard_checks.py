"""Compares the JSON of a dashboard with the metrics that the code exports and with the alerts."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from tests.deployment.known_series import KnownSeries
from tests.deployment.promql import labels_of_query
from tests.deployment.query_checks import check_query

REPLACED: Final = {"$__rate_interval": "1m", "$__range": "1h", "$kb_id": "0" * 24}
"""Values for what Grafana replaces."""
_IN_LEGEND: Final = re.compile(r"\{\{(\w+)\}\}")


def replace_variables(query: str, replaced: Mapping[str, str] = REPLACED) -> str:
    for variable, value in replaced.items():
        query = query.replace(variable, value)
    return query


def check_dashboard(
    dashboard: Mapping[str, Any], *, known: Mapping[str, KnownSeries], alerts: Collection[str]
) -> list[str]:
    """Return what is wrong with a dashboard, each with the panel; nothing if all of it is right."""
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    titles = [panel.get("title", "") for panel in panels]
    twice = [f"{title}: two panels have this title" for title in sorted(set(titles)) if titles.count(title) > 1]
    return [
        *twice,
        *(f"{panel.get('title') or panel['id']}: {each}" for panel in panels for each in _check(panel, known, alerts)),
    ]


def _check(panel: Mapping[str, Any], known: Mapping[str, KnownSeries], alerts: Collection[str]) -> Iterator[str]:
    for required in ("title", "description"):
        if not panel.get(required):
            yield f"has no {required}"
    if not panel["fieldConfig"]["defaults"].get("unit"):
        yield "has no unit"
    if not panel["targets"]:
        yield "has no query"
    for target in panel["targets"]:
        query = replace_variables(target["expr"])
        findings = check_query(query, known)
        yield from findings
        if not findings:
            yield from _check_legend(target.get("legendFormat", ""), labels_of_query(query))
    for link in panel.get("links") or []:
        alert = link["url"].rpartition("/")[2].removesuffix(".md")
        if alert not in alerts:
            yield f"links to the runbook of {alert}, which is no alert"


def _check_legend(legend: str, labels: Collection[str]) -> Iterator[str]:
    if not legend:
        yield "has a query without a legend"
    for label in _IN_LEGEND.findall(legend):
        if label not in labels:
            yield f"has a legend with the label {label}, which the answer does not have"
