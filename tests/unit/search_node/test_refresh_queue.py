import itertools

from bson.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from kb_local.search_node.refresh import Delays, RefreshQueue, RowChange

LAG_S = 1.0
ages = st.lists(st.floats(0, 10), max_size=30).map(sorted)
refreshes = st.lists(st.floats(0, 15), min_size=1, max_size=20).map(sorted)


def change(number: int, committed_at: float = 0.0) -> RowChange:
    return RowChange(number, None, committed_at, Timestamp(number, 1))


def queue_of(committed: list[float], seed: int = 0) -> RefreshQueue:
    queue = RefreshQueue(Delays(lag_s=LAG_S, refresh_s=0.1, seed=seed), index_name="db.coll/index")
    for number, committed_at in enumerate(committed):
        queue.push(change(number, committed_at))
    return queue


@given(ages, refreshes, st.integers(0, 3))
def test_changes_become_visible_in_order_each_once_and_never_before_the_lag(
    committed: list[float], times: list[float], seed: int
) -> None:
    queue = queue_of(committed, seed)
    seen: list[int] = []
    for now in times:
        shown = queue.refresh(now)
        assert all(one.committed_at <= now - LAG_S for one in shown)
        seen += [one.document_id for one in shown]
    assert seen == list(range(len(seen)))


@given(ages, refreshes, st.integers(0, 3))
def test_changes_older_than_the_lag_at_one_refresh_are_visible_after_the_next(
    committed: list[float], times: list[float], seed: int
) -> None:
    queue = queue_of(committed, seed)
    shown = 0
    for before, now in itertools.pairwise(times):
        queue_before = sum(one <= before - LAG_S for one in committed)
        shown += len(queue.refresh(before))
        shown += len(queue.refresh(now))
        assert shown >= queue_before


def test_a_refresh_cuts_changes_of_one_commit_at_some_seed() -> None:
    cuts = {len(queue_of([0.0] * 10, seed).refresh(5.0)) for seed in range(20)}
    assert len(cuts) > 3


def test_two_indexes_with_one_seed_cut_differently() -> None:
    def cuts(index_name: str) -> list[int]:
        queue = RefreshQueue(Delays(lag_s=LAG_S, seed=1), index_name=index_name)
        shown = []
        for round_number in range(10):
            for number in range(10):
                queue.push(change(number, round_number * 10))
            shown.append(len(queue.refresh(round_number * 10 + 5)))
        return shown

    assert cuts("a") == cuts("a") != cuts("b")


def test_changes_that_a_scan_has_seen_are_forgotten() -> None:
    queue = queue_of([0.0] * 5)
    queue.forget_until(Timestamp(2, 1))
    assert [one.document_id for one in queue.take_all()] == [3, 4]
