import pytest

from kb_local import patience as patience_module
from kb_local.patience import Patience


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(patience_module, "monotonic", lambda: now[0])
    return now


def test_patience_lasts_as_long_as_there_is_something_new(clock: list[float]) -> None:
    patience = Patience(10)
    for documents in range(100):
        clock[0] += 9
        patience.see(documents)
        assert not patience.is_over
    clock[0] += 11
    patience.see(99)
    assert patience.is_over


def test_what_goes_back_and_forth_is_no_progress(clock: list[float]) -> None:
    patience = Patience(10)
    for state in ("starting", "crashed") * 3:
        patience.see(state)
        clock[0] += 4
    assert patience.is_over
