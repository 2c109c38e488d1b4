from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import pytest

from kb_contracts.commands import Reason
from kb_shared.mongo.index_jobs import IndexJob, IndexJobState, work
from tests.chaos.mutants import DETECTORS, DetectingTest, InconclusiveRun, failed_test
from tests.chaos.mutation import MUTANTS

ROOT = Path(__file__).parents[2]
AT_WORK_ON = IndexJob(
    organization_id="org",
    kb_id="kb",
    document_id="d",
    state=IndexJobState.RUNNING,
    reason=Reason.OCR,
    force=False,
    token="the token it was claimed with",
    attempts=1,
    crashes=0,
    next_attempt_at=None,
    lease_owner="worker",
    traceparent=None,
    requested_at=datetime(2026, 1, 31, tzinfo=UTC),
    occurred_at=datetime(2026, 1, 31, tzinfo=UTC),
)


@pytest.fixture
def stop_patches() -> Iterator[None]:
    yield
    patch.stopall()


def test_every_mutant_has_a_detector() -> None:
    assert DETECTORS.keys() == MUTANTS.keys()


def test_every_detecting_test_is_there() -> None:
    for detector in DETECTORS.values():
        if isinstance(detector, DetectingTest):
            file, _, keyword = detector.tests.partition(" -k ")
            assert keyword in (ROOT / file).read_text()


@pytest.mark.usefixtures("stop_patches")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_mutant_finds_the_code_that_it_replaces(mutant: str) -> None:
    MUTANTS[mutant]()


@pytest.mark.usefixtures("stop_patches")
def test_the_mutant_without_tokens_writes_jobs_whatever_their_token_is() -> None:
    safe = work._as_claimed(AT_WORK_ON)
    MUTANTS["no-token-on-jobs"]()
    assert {**work._as_claimed(AT_WORK_ON), "token": AT_WORK_ON.token} == safe
    assert "token" not in work._as_claimed(AT_WORK_ON)


def test_only_a_failed_test_notices_a_mutant_and_only_passed_ones_let_it_survive() -> None:
    assert failed_test(1, "FAILED tests/integration/test_jobs.py::test_it[a] - assert") == "test_jobs.py::test_it"
    assert failed_test(0, "4 passed in 8.10s") is None


@pytest.mark.parametrize(
    ("status", "output"),
    [
        (1, "AttributeError: work.py does not have the attribute '_as_claimed'"),
        (1, "ERROR tests/integration/test_jobs.py::test_it - TimeoutError"),
        (4, "ERROR: not found: test_jobs.py"),
        (5, "12 deselected in 0.02s"),
        (-9, ""),
    ],
)
def test_a_mutant_that_nothing_was_tried_on_has_not_survived(status: int, output: str) -> None:
    with pytest.raises(InconclusiveRun):
        failed_test(status, output)
