"""The files of observability/ as objects: rules, their promtool tests, and the configuration of Alertmanager."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
OBSERVABILITY: Final = ROOT / "observability"
RUNBOOKS: Final = ROOT / "docs" / "runbooks"


@dataclass(frozen=True, slots=True)
class PrometheusRule:
    """An alert or a recording rule."""

    name: str
    expr: str
    is_alert: bool
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleTest:
    """A query of a promtool test: which alert it looks for, and whether it must find it."""

    name: str
    expr: str
    is_positive: bool


@dataclass(frozen=True, slots=True)
class AlertingSetup:
    """Everything about alerts that must fit together."""

    rules: Sequence[PrometheusRule]
    tests: Sequence[RuleTest]
    alertmanager: Mapping[str, Any]
    runbooks: Mapping[str, str]
    """Text of each page, by the name of its file without the suffix."""
    health_page: str

    @property
    def alerts(self) -> list[PrometheusRule]:
        return [rule for rule in self.rules if rule.is_alert]

    @property
    def alert_names(self) -> list[str]:
        """Return each name once, in the order of the file."""
        return list(dict.fromkeys(rule.name for rule in self.alerts))

    @property
    def recorded(self) -> set[str]:
        return {rule.name for rule in self.rules if not rule.is_alert}


def load_setup() -> AlertingSetup:
    """Read the repository."""
    return AlertingSetup(
        rules=[rule for file in _yaml_files("prometheus/rules") for rule in _rules(file)],
        tests=[test for file in _yaml_files("prometheus/tests") for test in _tests(file)],
        alertmanager=yaml.safe_load((OBSERVABILITY / "alertmanager" / "alertmanager.yml").read_text()),
        runbooks={page.stem: page.read_text() for page in sorted(RUNBOOKS.glob("*.md"))},
        health_page=(ROOT / "docs" / "reference" / "health.md").read_text(),
    )


def _yaml_files(folder: str) -> list[Any]:
    # The loader in C, because each worker that collects the tests reads them.
    return [yaml.load(file.read_text(), yaml.CSafeLoader) for file in sorted((OBSERVABILITY / folder).glob("*.yml"))]


def _rules(file: Mapping[str, Any]) -> Iterator[PrometheusRule]:
    for rule in (rule for group in file["groups"] for rule in group["rules"]):
        yield PrometheusRule(
            name=rule.get("alert") or rule["record"],
            expr=rule["expr"],
            is_alert="alert" in rule,
            labels=rule.get("labels", {}),
            annotations=rule.get("annotations", {}),
        )


def _tests(file: Mapping[str, Any]) -> Iterator[RuleTest]:
    for test in file["tests"]:
        for query in test["promql_expr_test"]:
            yield RuleTest(test["name"], query["expr"], is_positive=bool(query["exp_samples"]))
