import pytest

from kb_local import progress_deadline as patience_module
from kb_local.progress_deadline import ProgressDeadline


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(patience_module, "monotonic", lambda: now[0])
    return now


def test_the_deadline_moves_as_long_as_there_is_progress(clock: list[float]) -> None:
    deadline = ProgressDeadline(10)
    for documents in range(100):
        clock[0] += 9
        deadline.record(documents)
        assert not deadline.is_over
    clock[0] += 11
    deadline.record(99)
    assert deadline.is_over


def test_a_value_that_goes_back_and_forth_is_no_progress(clock: list[float]) -> None:
    deadline = ProgressDeadline(10)
    for state in ("starting", "crashed") * 3:
        deadline.record(state)
        clock[0] += 4
    assert deadline.is_over
