"""What must hold for alerts, as pure functions: a setup in, findings out. A finding says where and what is wrong."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tests.deployment.alert_rules import AlertingSetup, PrometheusRule
from tests.deployment.known_series import KnownSeries, series_in_prometheus
from tests.deployment.promql import names_in_query
from tests.deployment.query_checks import check_query

SEVERITIES: Final = ("page", "ticket")
SECTIONS: Final = ("What users notice", "What it means", "Check", "Fix", "Afterwards")
_HEADING: Final = re.compile(r"^## (?P<title>.+)$", re.MULTILINE)
_PROMQL: Final = re.compile(r"^```promql\n(?P<query>.*?)^```$", re.MULTILINE | re.DOTALL)
_LABEL_IN_TEMPLATE: Final = re.compile(r"\$labels\.(?P<label>\w+)")
_ALERT_IN_TEST: Final = re.compile(r'alertname="(?P<name>\w+)"')
_ALERT_NAME: Final = re.compile(r"\bKb[A-Z]\w+")
_HEALTH_ROW: Final = re.compile(
    r"^\| \[(?P<name>Kb\w+)\]\(\.\./runbooks/(?P<page>\w+)\.md\) \| (?P<severities>[\w, ]+) \|", re.MULTILINE
)


def find_problems(setup: AlertingSetup) -> list[str]:
    """Return everything that is wrong with the alerts of a repository."""
    known = series_in_prometheus(setup.recorded)
    return [
        *(f"{rule.name}: {problem}" for rule in setup.rules for problem in check_query(rule.expr, known)),
        *(problem for alert in setup.alerts for problem in _of_annotations(alert, known)),
        *_of_runbooks(setup, known),
        *_of_tests(setup),
        *_of_alertmanager(setup),
        *_of_health_page(setup),
    ]


def _of_annotations(alert: PrometheusRule, known: Mapping[str, KnownSeries]) -> Iterator[str]:
    if alert.labels.get("severity") not in SEVERITIES:
        yield f"{alert.name}: the severity is {alert.labels.get('severity')}, not one of {', '.join(SEVERITIES)}"
    for name in ("summary", "description"):
        if not alert.annotations.get(name):
            yield f"{alert.name}: no {name}"
    wanted = f"docs/runbooks/{alert.name}.md"
    if (found := alert.annotations.get("runbook_url")) != wanted:
        yield f"{alert.name}: runbook_url is {found}, not {wanted}"
    if not check_query(alert.expr, known):
        labels = set(alert.labels).union(*(known[name].labels for name in names_in_query(alert.expr)))
        for text in alert.annotations.values():
            for match in _LABEL_IN_TEMPLATE.finditer(text):
                if match["label"] not in labels:
                    yield f"{alert.name}: the text names the label {match['label']}, which no series of it has"


def _of_runbooks(setup: AlertingSetup, known: Mapping[str, KnownSeries]) -> Iterator[str]:
    for name in sorted(set(setup.alert_names) - setup.runbooks.keys()):
        yield f"docs/runbooks/{name}.md: missing"
    for name, text in setup.runbooks.items():
        where = f"docs/runbooks/{name}.md"
        if name not in setup.alert_names:
            yield f"{where}: there is no such alert"
        if (found := tuple(match["title"] for match in _HEADING.finditer(text))) != SECTIONS:
            yield f"{where}: its sections are {', '.join(found)}, not {', '.join(SECTIONS)}"
        for match in _PROMQL.finditer(text):
            yield from (f"{where}: {problem}" for problem in check_query(match["query"], known))
        for other in sorted(set(_ALERT_NAME.findall(text)) - set(setup.alert_names)):
            yield f"{where}: names the alert {other}, which does not exist"


def _of_tests(setup: AlertingSetup) -> Iterator[str]:
    shown: dict[bool, set[str]] = {True: set(), False: set()}
    for test in setup.tests:
        shown[test.is_positive] |= {match["name"] for match in _ALERT_IN_TEST.finditer(test.expr)}
    for name in setup.alert_names:
        for is_positive, what in ((True, "fires"), (False, "does not fire")):
            if name not in shown[is_positive]:
                yield f"{name}: no promtool test shows that it {what}"
    for name in sorted((shown[True] | shown[False]) - set(setup.alert_names)):
        yield f"{name}: promtool tests look for it, and there is no such alert"


def _of_alertmanager(setup: AlertingSetup) -> Iterator[str]:
    named = set(_ALERT_NAME.findall(str(setup.alertmanager)))
    for name in sorted(named - set(setup.alert_names)):
        yield f"alertmanager.yml: names the alert {name}, which does not exist"
    receivers = {receiver["name"] for receiver in setup.alertmanager["receivers"]}
    for severity in SEVERITIES:
        if severity not in receivers:
            yield f"alertmanager.yml: no receiver {severity}"


def _of_health_page(setup: AlertingSetup) -> Iterator[str]:
    rows = {match["name"]: (match["page"], match["severities"]) for match in _HEALTH_ROW.finditer(setup.health_page)}
    wanted = {}
    for name in setup.alert_names:
        used = {alert.labels.get("severity") for alert in setup.alerts if alert.name == name}
        wanted[name] = (name, ", ".join(severity for severity in SEVERITIES if severity in used))
    for name in wanted.keys() | rows.keys():
        if rows.get(name) != wanted.get(name):
            yield f"health.md: {name} is {rows.get(name)}, not {wanted.get(name)}"
    if sorted(rows) == sorted(wanted) and list(rows) != list(wanted):
        yield "health.md: the alerts are not in the order of alerts.yml"
