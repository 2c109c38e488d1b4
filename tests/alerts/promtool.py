"""Runs promtool's unit tests of rules, all of a file, or one on the few rules that it needs."""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Final

import promql_parser
import yaml

from kb_local.monitoring_programs import monitoring_program
from tests.deployment.alert_rules import OBSERVABILITY

RULES: Final = OBSERVABILITY / "prometheus" / "rules"
UNIT_TESTS: Final = sorted((OBSERVABILITY / "prometheus" / "tests").glob("*.yml"))
_WITHIN_S: Final = 300.0
_ALERT: Final = re.compile(r'alertname="(?P<name>\w+)"')
_RECORDED: Final = re.compile(r"\bkb:[\w:]+")

RuleGroups = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class UnitTestResult:
    """Outcome of one file of tests."""

    has_passed: bool
    output: str


def run_unit_tests(file: Path) -> UnitTestResult:
    """Run a file of promtool tests."""
    command = [str(monitoring_program("promtool")), "test", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WITHIN_S, check=False)
    # With files of rules that do not exist promtool only warns, and tests that expect no alert pass.
    return UnitTestResult(done.returncode == 0 and "WARNING" not in done.stderr, done.stdout + done.stderr)


@dataclass(frozen=True, slots=True)
class RuleTestCase:
    """One test of a file, with its series and its queries."""

    name: str
    content: Mapping[str, Any]
    evaluation_interval: str
    asked_for: frozenset[str]
    """Alerts and recorded series in its queries and in the samples that they must find."""
    given: frozenset[str]
    """Recorded series that it gives itself: no rule may record them, too."""
    evaluations: int
    """Number of times that each rule is evaluated, until the last query."""


def read_cases(files: Sequence[Path] = tuple(UNIT_TESTS)) -> list[RuleTestCase]:
    """Return the tests of all files."""
    return [case for file in files for case in _cases(yaml.load(file.read_text(), _SeriesLoader))]


class _SeriesLoader(yaml.SafeLoader):  # type: ignore[misc]  # the library has no types
    """Reads the values `0x20` as what they are for promtool: 21 zeros, not 32."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:int"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_SeriesLoader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"-?\d+$"), list("-0123456789"))


def _cases(file: Mapping[str, Any]) -> Iterator[RuleTestCase]:
    interval = file["evaluation_interval"]
    for test in file["tests"]:
        queries = test["promql_expr_test"]
        last: timedelta = max(promql_parser.parse_duration(query["eval_time"]) for query in queries)
        evaluations = last // promql_parser.parse_duration(interval)
        given = {name for series in test["input_series"] for name in _RECORDED.findall(series["series"])}
        yield RuleTestCase(test["name"], test, interval, frozenset(_names(queries)), frozenset(given), evaluations)


def _names(queries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for query in queries:
        for text in (query["expr"], *(sample["labels"] for sample in query["exp_samples"])):
            yield from (match["name"] for match in _ALERT.finditer(text))
            yield from _RECORDED.findall(text)


def read_rule_groups() -> list[dict[str, Any]]:
    """Return the groups of all files, those of recording rules first."""
    files = sorted(RULES.glob("*.yml"), key=lambda file: file.stem != "recording")
    return [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]


def name_of(rule: Mapping[str, Any]) -> str:
    return str(rule.get("alert") or rule["record"])


@dataclass(frozen=True, slots=True)
class RuleNames:
    """Recorded series that rules read."""

    reads: Mapping[str, frozenset[str]]
    """Names of recorded series by the name of the alert or the recorded series that reads them."""

    @classmethod
    def from_groups(cls, groups: RuleGroups) -> "RuleNames":
        reads: dict[str, frozenset[str]] = {}
        for rule in (rule for group in groups for rule in group["rules"]):
            reads[name_of(rule)] = reads.get(name_of(rule), frozenset()) | frozenset(_RECORDED.findall(rule["expr"]))
        return cls(reads)

    def needed_for(self, case: RuleTestCase) -> frozenset[str]:
        """Return the rules that a test asks for, with all that they read, directly or not."""
        needed = case.asked_for & self.reads.keys()
        while more := frozenset().union(*(self.reads[name] for name in needed)) - needed - case.given:
            needed |= more
        return needed

    def cases_of(self, name: str, cases: Sequence[RuleTestCase]) -> list[RuleTestCase]:
        """Return the tests that ask for a rule or for one that reads it, the fastest ones first."""
        asking = [case for case in cases if name in self.needed_for(case)]
        return sorted(asking, key=lambda case: case.evaluations * len(self.needed_for(case)))


def run_case(case: RuleTestCase, groups: RuleGroups, folder: Path) -> UnitTestResult:
    """Run one test on those of the rules that it asks for, which takes a tenth of the time; writes into `folder`."""
    needed = RuleNames.from_groups(groups).needed_for(case)
    kept = [{**group, "rules": [rule for rule in group["rules"] if name_of(rule) in needed]} for group in groups]
    kept = [group for group in kept if group["rules"]]
    tests = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": case.evaluation_interval,
        # Rules before those that read them. Otherwise the order, and what a test sees, changes from run to run.
        "group_eval_order": [group["name"] for group in kept],
        "tests": [dict(case.content)],
    }
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": kept}))
    (folder / "tests.yml").write_text(yaml.safe_dump(tests))
    return run_unit_tests(folder / "tests.yml")
