"""What Prometheus and Alertmanager themselves say about their files, and the unit tests of the rules."""

import subprocess
from pathlib import Path

import pytest

from kb_local.monitoring_programs import monitoring_program
from tests.alerts.promtool import UNIT_TESTS, run_unit_tests
from tests.alerts.short_windows import write_short_windows
from tests.deployment.alert_rules import OBSERVABILITY

pytestmark = pytest.mark.prometheus
PROMETHEUS = OBSERVABILITY / "prometheus"
UNIT_TEST = """
rule_files: [RULES]
tests:
  - input_series: []
    promql_expr_test:
      - {eval_time: 1m, expr: vector(1), exp_samples: [{labels: '{}', value: 1}]}
      - {eval_time: 1m, expr: 'ALERTS{alertname="KbMongoSlow"}', exp_samples: []}
"""
ALERTMANAGER = OBSERVABILITY / "alertmanager" / "alertmanager.yml"


def run(*command: str | Path) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rule_files(folder: Path) -> list[Path]:
    return sorted((folder / "rules").glob("*.yml"))


def test_prometheus_accepts_rules_and_configuration_without_a_warning() -> None:
    promtool = monitoring_program("promtool")
    run(promtool, "check", "rules", "--lint=all", "--lint-fatal", *rule_files(PROMETHEUS))
    run(promtool, "check", "config", PROMETHEUS / "prometheus.yml")


@pytest.mark.parametrize("file", UNIT_TESTS, ids=lambda file: file.stem)
def test_alerts_fire_when_they_should_and_only_then(file: Path) -> None:
    result = run_unit_tests(file)
    assert result.has_passed, result.output


# promtool ends with 0 where it finds no rules: then no alert fires, which is what the second test expects.
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("value: 1}", "value: 2}"),
        ("exp_samples: []", "exp_samples: [{labels: '{}', value: 1}]"),
        ("exp_samples:", "exp_sample:"),
        ("vector(1)", "vector(1"),
        ("RULES", "NO_RULES"),
    ],
)
def test_a_unit_test_that_fails_or_has_no_rules_is_noticed(tmp_path: Path, old: str, new: str) -> None:
    [passes, fails] = tmp_path / "passes.yml", tmp_path / "fails.yml"
    passes.write_text(UNIT_TEST.replace("RULES", str(PROMETHEUS / "rules" / "alerts.yml")))
    fails.write_text(UNIT_TEST.replace(old, new).replace("RULES", str(PROMETHEUS / "rules" / "alerts.yml")))
    assert run_unit_tests(passes).has_passed
    assert not run_unit_tests(fails).has_passed


def test_prometheus_accepts_the_faster_rules(tmp_path: Path) -> None:
    folder = write_short_windows(tmp_path / "observability")
    run(monitoring_program("promtool"), "check", "rules", *rule_files(folder / "prometheus"))
    run(monitoring_program("amtool"), "check-config", folder / "alertmanager" / "alertmanager.yml")


def test_alertmanager_accepts_its_configuration() -> None:
    run(monitoring_program("amtool"), "check-config", ALERTMANAGER)


@pytest.mark.parametrize("severity", ["page", "ticket"])
def test_an_alert_goes_to_the_receiver_of_its_severity(severity: str) -> None:
    routed = run(
        *(monitoring_program("amtool"), "config", "routes", "test", f"--config.file={ALERTMANAGER}"),
        *(f"--verify.receivers={severity}", f"severity={severity}", "alertname=KbDrift"),
    )
    assert routed.split() == [severity]
