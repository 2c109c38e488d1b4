"""What the named tests say of a mutant."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree as ET


class MutantOutcome(StrEnum):
    CAUGHT = "caught"
    SURVIVED = "survived"
    """A test that should notice it passes."""
    UNKNOWN = "unknown"
    """A test did not run: it is missing or skipped, or something else is broken."""


@dataclass(frozen=True, slots=True)
class PytestResults:
    """Results of the tests of one run of pytest, by `file::function`."""

    failed: frozenset[str]
    passed: frozenset[str]
    """All their cases."""


@dataclass(frozen=True, slots=True)
class Verdict:
    mutant: str
    outcome: MutantOutcome
    seconds: float
    detail: str = ""

    @property
    def is_good(self) -> bool:
        return self.outcome is MutantOutcome.CAUGHT


def read_report(report: Path) -> PytestResults:
    """Read a JUnit report; raises FileNotFoundError where pytest came to no end."""
    failed: set[str] = set()
    passed: set[str] = set()
    unclear: set[str] = set()
    for case in ET.parse(report).iter("testcase"):
        test = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name', '').partition('[')[0]}"
        kinds = {child.tag for child in case}
        if "failure" in kinds:
            failed.add(test)
        elif kinds & {"error", "skipped"}:
            unclear.add(test)
        else:
            passed.add(test)
    return PytestResults(frozenset(failed), frozenset(passed - failed - unclear))


def judge(tests: Sequence[str], ran: PytestResults) -> tuple[MutantOutcome, str]:
    """Say whether each of `tests` failed, and which of them did not."""
    if survived := [test for test in tests if test in ran.passed]:
        return MutantOutcome.SURVIVED, _listed(survived)
    if unclear := [test for test in tests if test not in ran.failed]:
        return MutantOutcome.UNKNOWN, f"did not run: {_listed(unclear)}"
    return MutantOutcome.CAUGHT, ""


def _listed(tests: Iterable[str]) -> str:
    return ", ".join(tests)
