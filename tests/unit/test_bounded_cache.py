"""`BoundedCache` against a model: a list of entries in the order of their last use."""

from hypothesis import given
from hypothesis import strategies as st

from kb_shared.concurrency.bounded_cache import BoundedCache

LIFETIME_S = 10.0

KEYS = st.integers(0, 6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.integers(0, 99)),
        st.tuples(st.just("find"), KEYS, st.just(0)),
        st.tuples(st.just("discard"), KEYS, st.just(0)),
        st.tuples(st.just("wait"), st.integers(1, 12), st.just(0)),
    ),
    max_size=60,
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(STEPS, st.integers(1, 5), st.booleans())
def test_the_entries_used_last_are_kept_and_none_that_is_too_old(
    steps: list[tuple[str, int, int]], max_entries: int, expires: bool
) -> None:
    clock = Clock()
    lifetime_s = LIFETIME_S if expires else float("inf")
    cache: BoundedCache[int, int] = BoundedCache(max_entries, lifetime_s=lifetime_s, clock=clock)
    expected: dict[int, tuple[int, float]] = {}  # the most recently used comes last
    for step, number, value in steps:
        if step == "wait":
            clock.now += number
        elif step == "discard":
            cache.discard(number)
            expected.pop(number, None)
        elif step == "put":
            cache.put(number, value)
            expected.pop(number, None)
            expected[number] = (value, clock.now + lifetime_s)
            if len(expected) > max_entries:
                del expected[next(iter(expected))]
        else:
            known = expected.pop(number, None)
            if known is not None and clock.now < known[1]:
                expected[number] = known
                assert cache.find(number) == known[0]
            else:
                assert cache.find(number) is None
        assert len(cache) == len(expected) <= max_entries


def test_an_entry_that_is_used_does_not_live_longer_for_it() -> None:
    clock = Clock()
    cache: BoundedCache[str, int] = BoundedCache(2, lifetime_s=LIFETIME_S, clock=clock)
    cache.put("one", 1)
    clock.now = LIFETIME_S - 1
    assert cache.find("one") == 1
    clock.now = LIFETIME_S
    assert cache.find("one") is None


def test_an_entry_in_use_stays_and_the_least_recently_used_of_the_others_goes() -> None:
    cache: BoundedCache[str, list[str]] = BoundedCache(2, is_in_use=bool)
    cache.put("busy", ["work"])
    cache.put("idle", [])
    cache.put("new", [])
    assert cache.find("busy") == ["work"]
    assert cache.find("idle") is None
    assert cache.find("new") == []


def test_the_new_entry_stays_while_all_others_are_in_use() -> None:
    cache: BoundedCache[str, list[str]] = BoundedCache(1, is_in_use=bool)
    cache.put("busy", ["work"])
    cache.put("new", [])
    assert len(cache) == 2
    assert cache.find("new") == []
