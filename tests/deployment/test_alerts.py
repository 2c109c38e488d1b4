"""Alerts, runbooks, promtool tests, routes and the page about health fit together, and mistakes in them are found."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.alerts.faults import FAULTS
from tests.deployment.alert_checks import find_problems
from tests.deployment.alert_rules import AlertingSetup, PrometheusRule, load_setup
from tests.docs.commands import parse_blocks

SETUP = load_setup()


def test_alerts_fit_together() -> None:
    assert find_problems(SETUP) == []


def test_tagged_commands_are_those_of_injected_faults() -> None:
    injected = {fault.alert for fault in FAULTS}
    for name, text in SETUP.runbooks.items():
        steps = {block.step for block in parse_blocks(text)} - {None}
        assert steps == ({"diagnose", "resolve"} if name in injected else set()), name


def with_rule(name: str, **changes: Any) -> AlertingSetup:
    """Return the repository with a change of the first rule of this name."""
    changed = next(rule for rule in SETUP.rules if rule.name == name)
    return replace(SETUP, rules=[replace(rule, **changes) if rule is changed else rule for rule in SETUP.rules])


def with_text(name: str, old: str, new: str) -> AlertingSetup:
    """Return the repository with another text in all queries of a rule."""
    rules = [each if each.name != name else replace(each, expr=replaced(each.expr, old, new)) for each in SETUP.rules]
    return replace(SETUP, rules=rules)


def replaced(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


def without_tests(name: str, *, positive: bool) -> AlertingSetup:
    kept = [test for test in SETUP.tests if name not in test.expr or test.is_positive is not positive]
    return replace(SETUP, tests=kept)


def with_runbook(name: str, old: str, new: str) -> AlertingSetup:
    return replace(SETUP, runbooks={**SETUP.runbooks, name: replaced(SETUP.runbooks[name], old, new)})


def annotations_of(name: str) -> dict[str, str]:
    return dict(next(rule for rule in SETUP.rules if rule.name == name).annotations)


MISTAKES: dict[str, tuple[Callable[[], AlertingSetup], str]] = {
    "renamed metric": (
        lambda: with_text("KbOutboxBacklog", "kb_outbox_oldest_age_seconds", "kb_outbox_age_seconds"),
        "KbOutboxBacklog: kb_outbox_age_seconds is exported by no service and recorded by no rule",
    ),
    "renamed recording rule": (
        lambda: with_text("KbIndexLag", "kb:freshness:age_seconds", "kb:freshness:age"),
        "KbIndexLag: kb:freshness:age is exported by no service and recorded by no rule",
    ),
    "counter without its suffix": (
        lambda: with_text("KbEmbeddingsLost", "kb_embeddings_lost_total", "kb_embeddings_lost"),
        "KbEmbeddingsLost: kb_embeddings_lost is exported by no service and recorded by no rule",
    ),
    "unknown label": (
        lambda: with_text("KbDocumentsFailing", "state=", "status="),
        "KbDocumentsFailing: kb_documents has no label status",
    ),
    "renamed value of a label": (
        lambda: with_text("KbReconcilerStopped", '"stopped"', '"halted"'),
        "KbReconcilerStopped: outcome of kb_reconciler_repairs_total is never halted",
    ),
    "bound of a bucket as Go writes it": (
        lambda: with_text("kb:time_to_searchable:error_ratio1h", 'le="60.0"', 'le="60"'),
        "kb:time_to_searchable:error_ratio1h: le of kb_time_to_searchable_seconds_bucket is never 60",
    ),
    "grouping by a label that is not there": (
        lambda: with_text("KbDeadLetters", "by (topic)", "by (reason)"),
        "KbDeadLetters: groups by reason, which no series of it has",
    ),
    "job that Prometheus does not scrape": (
        lambda: with_text("KbServiceDown", 'absent(up{job="kb-api"})', 'absent(up{job="api"})'),
        "KbServiceDown: job of up is never api",
    ),
    "rate of a gauge": (
        lambda: with_text("KbConsumerUnsettled", "kb_consumer_rebalances_total", "kb_consumer_lag_seconds"),
        "KbConsumerUnsettled: increase of kb_consumer_lag_seconds, which is a gauge",
    ),
    "quantile without le": (
        lambda: with_text("KbMongoSlow", "sum by (le)", "sum by (stage)"),
        "KbMongoSlow: histogram_quantile needs the label le",
    ),
    "quantile of a sum": (
        lambda: with_text("KbMongoSlow", "kb_search_seconds_bucket", "kb_search_seconds_sum"),
        "KbMongoSlow: histogram_quantile needs the series that end in _bucket",
    ),
    "sum of totals": (
        lambda: with_text("KbCircuitOpen", "max by (cause)", "sum by (cause)"),
        "KbCircuitOpen: kb_circuits_open is exported by each replica: use max, not sum",
    ),
    "broken query": (
        lambda: with_rule("kb:freshness:stale", expr="kb:freshness:age_seconds > bool"),
        "kb:freshness:stale: is not PromQL",
    ),
    "broken query of an alert": (
        lambda: with_rule("KbKafkaDown", expr="max(kb_leader"),
        "KbKafkaDown: is not PromQL",
    ),
    "no severity": (lambda: with_rule("KbKafkaDown", labels={}), "KbKafkaDown: the severity is None"),
    "no summary": (
        lambda: with_rule("KbKafkaDown", annotations={**annotations_of("KbKafkaDown"), "summary": ""}),
        "KbKafkaDown: no summary",
    ),
    "runbook of another alert": (
        lambda: with_rule("KbKafkaDown", annotations=annotations_of("KbMongoSlow")),
        "KbKafkaDown: runbook_url is docs/runbooks/KbMongoSlow.md",
    ),
    "label of a text that is not there": (
        lambda: with_rule("KbKafkaDown", annotations={**annotations_of("KbKafkaDown"), "summary": "{{ $labels.pod }}"}),
        "KbKafkaDown: the text names the label pod",
    ),
    "missing runbook": (
        lambda: replace(SETUP, runbooks={name: text for name, text in SETUP.runbooks.items() if name != "KbDrift"}),
        "docs/runbooks/KbDrift.md: missing",
    ),
    "runbook of an alert that is gone": (
        lambda: replace(SETUP, rules=[rule for rule in SETUP.rules if rule.name != "KbDrift"]),
        "docs/runbooks/KbDrift.md: there is no such alert",
    ),
    "runbook without a section": (
        lambda: with_runbook("KbDrift", "## Fix", "## Repair"),
        "docs/runbooks/KbDrift.md: its sections are",
    ),
    "renamed metric in a runbook": (
        lambda: with_runbook("KbDrift", "kb_reconciler_repairs_total", "kb_repairs_total"),
        "docs/runbooks/KbDrift.md: kb_repairs_total is exported by no service and recorded by no rule",
    ),
    "alert that never was shown to fire": (
        lambda: without_tests("KbDrift", positive=True),
        "KbDrift: no promtool test shows that it fires",
    ),
    "alert that never was shown not to fire": (
        lambda: without_tests("KbDrift", positive=False),
        "KbDrift: no promtool test shows that it does not fire",
    ),
    "muting of an alert that does not exist": (
        lambda: replace(
            SETUP,
            alertmanager={**SETUP.alertmanager, "inhibit_rules": [{"source_matchers": ['alertname="KbMongoGone"']}]},
        ),
        "alertmanager.yml: names the alert KbMongoGone",
    ),
    "no receiver for a severity": (
        lambda: replace(SETUP, alertmanager={**SETUP.alertmanager, "receivers": [{"name": "page"}]}),
        "alertmanager.yml: no receiver ticket",
    ),
    "alert that the page about health lacks": (
        lambda: replace(SETUP, health_page=replaced(SETUP.health_page, "[KbDrift]", "[KbDrifts]")),
        "health.md: KbDrift is None",
    ),
    "other severity in the page about health": (
        lambda: with_rule("KbDrift", labels={"severity": "page"}),
        "health.md: KbDrift is ('KbDrift', 'ticket'), not ('KbDrift', 'page')",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str) -> None:
    plant, finding = MISTAKES[mistake]
    assert [problem for problem in find_problems(plant()) if problem.startswith(finding)]


def test_a_new_alert_needs_a_runbook_tests_and_a_row() -> None:
    labels = {"severity": "ticket"}
    texts = {"summary": "S", "description": "D", "runbook_url": "docs/runbooks/KbNew.md"}
    added = PrometheusRule("KbNew", "max(kb_leader) > 1", is_alert=True, labels=labels, annotations=texts)
    assert find_problems(replace(SETUP, rules=[*SETUP.rules, added])) == [
        "docs/runbooks/KbNew.md: missing",
        "KbNew: no promtool test shows that it fires",
        "KbNew: no promtool test shows that it does not fire",
        "health.md: KbNew is None, not ('KbNew', 'ticket')",
    ]
