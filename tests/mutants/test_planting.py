"""A fault is in the copy and nowhere else, and only tests that fail because of it catch it."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.__main__ import run_mutant
from tests.mutants.mutant import ROOT, Mutant, NotPlantable, in_file
from tests.mutants.verdict import MutantOutcome, PytestResults, judge, read_report

[NOTICES] = in_file(
    "tests/unit/test_log_limit.py",
    "test_the_same_cause_is_written_once_in_an_interval_and_then_with_how_many_were_left_out",
)
[DOES_NOT] = in_file("tests/mutants/test_planting.py", "test_a_test_that_did_not_run_has_caught_nothing")
MUTANT = Mutant(
    "log-limit-counts-nothing",
    "shared/kb_shared/observability/log_limit.py",
    old="def admit(self",
    new="def admitted(self",
    caught_by=(NOTICES,),
)


def test_a_planted_package_is_imported_instead_of_the_installed_one(tmp_path: Path) -> None:
    before = (ROOT / MUTANT.file).read_bytes()
    environment = MUTANT.plant(tmp_path)
    program = "from kb_shared.observability.log_limit import LogLimit; print(hasattr(LogLimit, 'admitted'))"
    command = [sys.executable, "-c", program]
    planted = subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True)
    installed = subprocess.run(command, env=os.environ, cwd=ROOT, check=True, capture_output=True, text=True)
    assert (planted.stdout.strip(), installed.stdout.strip()) == ("True", "False")
    assert (ROOT / MUTANT.file).read_bytes() == before


@pytest.mark.parametrize("old", ["not in the file", "def "])
def test_a_text_that_is_not_there_exactly_once_is_refused(tmp_path: Path, old: str) -> None:
    with pytest.raises(NotPlantable):
        replace(MUTANT, old=old).plant(tmp_path)


async def test_a_mutant_survives_the_tests_that_pass_and_only_those() -> None:
    verdict = await run_mutant(replace(MUTANT, caught_by=(NOTICES, DOES_NOT)))
    assert (verdict.outcome, verdict.detail) == (MutantOutcome.SURVIVED, DOES_NOT)


def test_a_test_that_did_not_run_has_caught_nothing() -> None:
    ran = PytestResults(failed=frozenset({"f.py::a"}), passed=frozenset())
    assert judge(["f.py::a"], ran)[0] is MutantOutcome.CAUGHT
    assert judge(["f.py::a", "f.py::b"], ran) == (MutantOutcome.UNKNOWN, "did not run: f.py::b")


def test_one_failed_case_fails_a_test_and_a_skipped_one_keeps_it_from_having_passed(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        """<testsuites><testsuite>
        <testcase classname="tests.unit.test_x" name="test_a[1]" />
        <testcase classname="tests.unit.test_x" name="test_a[2]"><failure message="no" /></testcase>
        <testcase classname="tests.unit.test_x" name="test_b[1]" />
        <testcase classname="tests.unit.test_x" name="test_b[2]"><skipped /></testcase>
        <testcase classname="tests.unit.test_x" name="test_c"><error message="no" /></testcase>
        <testcase classname="tests.unit.test_x" name="test_d" />
        </testsuite></testsuites>"""
    )
    file = "tests/unit/test_x.py"
    assert read_report(report) == PytestResults(frozenset({f"{file}::test_a"}), frozenset({f"{file}::test_d"}))
