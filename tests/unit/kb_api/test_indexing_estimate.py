"""What is left is known early, whatever the documents are: their order, their sizes, and what the cache has of them."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_api.indexing_estimate import (
    DoneAt,
    IndexedLately,
    OpenDocument,
    WorkLeft,
    estimate_seconds,
    measure_pace,
    measure_size,
    progress,
    weigh,
)

CHARACTERS = 700
"""Characters of a chunk, on average."""
AT_ONCE = 32
"""Documents that are worked on at the same time, and are therefore cut."""
NOTED_FROM = 16
"""Chunks from which on a document says how many of them have vectors."""
BATCH = 16


@dataclass(frozen=True, slots=True)
class Planned:
    """Document of a simulation."""

    chunks: int
    cached: int = 0
    characters: int = CHARACTERS
    """Characters of each of its chunks."""


@dataclass(slots=True)
class Simulation:
    """An indexer that makes `BATCH` vectors at a time, in the order of the documents."""

    documents: Sequence[Planned]
    seconds_per_vector: Callable[[int], float] = lambda _: 0.2
    earlier: Sequence[DoneAt] = ()
    """Charges of an earlier run."""
    now_s: float = 0
    made: int = 0
    charges: list[DoneAt] = field(default_factory=list)
    done: list[IndexedLately] = field(default_factory=list)
    embedded: list[int] = field(default_factory=list)

    def steps(self) -> Iterator[float]:
        """Yield the time after each answer of the provider."""
        self.charges = [*self.earlier]
        self.embedded = [each.cached for each in self.documents]
        self._finish()
        while len(self.done) < len(self.documents):
            wanted = BATCH
            for number, each in enumerate(self.documents):
                taken = min(wanted, each.chunks - self.embedded[number])
                self.embedded[number] += taken
                wanted -= taken
            count = BATCH - wanted
            self.now_s += sum(self.seconds_per_vector(self.made + each) for each in range(count))
            self.made += count
            self.charges.append((self.now_s, count))
            self._finish()
            yield self.now_s

    def _finish(self) -> None:
        while len(self.done) < len(self.documents):
            each = self.documents[len(self.done)]
            if self.embedded[len(self.done)] < each.chunks:
                break
            length = each.chunks * each.characters
            self.done.append(IndexedLately(self.now_s, each.chunks, each.chunks - each.cached, each.cached, length))

    def work(self) -> WorkLeft:
        first = len(self.done)
        open_documents = [
            OpenDocument(
                text_length=each.chunks * each.characters,
                chunk_count=each.chunks if number < first + AT_ONCE and each.chunks > NOTED_FROM else None,
                embedded_count=self.embedded[number],
            )
            for number, each in enumerate(self.documents[first:], start=first)
        ]
        characters = measure_size(self.done[-100:], open_documents, usual=1_500)
        return weigh(open_documents, characters=characters, mean_chunks=1)

    def estimate(self) -> float | None:
        pace = measure_pace(self.charges)
        return estimate_seconds(self.work(), done=self.done[-100:], vectors_per_s=pace)

    def progress(self) -> float:
        return progress(self.work(), live=sum(each.chunk_count for each in self.done))


def error_after_a_third(simulation: Simulation) -> float:
    """Return the error of the estimate after a third of the time, as a share of the time that was left."""
    estimates = [(at_s, simulation.estimate()) for at_s in simulation.steps()]
    total_s = estimates[-1][0]
    at_s, estimate = next(each for each in estimates if each[0] >= total_s / 3)
    assert estimate is not None
    return abs(estimate - (total_s - at_s)) / (total_s - at_s)


LARGE = Planned(900)
SMALL = [Planned(each) for each in (1, 2, 3, 5, 8, 13, 20, 24, 24)]

FOLDERS = {
    "one has nine tenths of the chunks and is last": [*SMALL, LARGE],
    "one has nine tenths of the chunks and is first": [LARGE, *SMALL],
    "many small ones": [Planned(1 + number % 3) for number in range(400)],
    "small ones first, as `kb docs push` sends them": [Planned(1 + number**2 // 40) for number in range(120)],
    "large ones first": [Planned(1 + number**2 // 40) for number in range(120)][::-1],
    "those first that the cache has whole": [*[Planned(30, cached=30)] * 20, *[Planned(30)] * 20],
    "the cache has a half of each": [Planned(20, cached=10) for _ in range(100)],
    "changed documents, of which the cache has nearly all": [Planned(50, cached=45) for _ in range(100)],
}


@pytest.mark.parametrize("documents", FOLDERS.values(), ids=FOLDERS)
def test_the_error_after_a_third_is_below_a_half_whatever_the_order(documents: list[Planned]) -> None:
    assert error_after_a_third(Simulation(documents)) < 0.5


@given(
    chunks=st.lists(st.integers(1, 60), min_size=4, max_size=80).filter(lambda each: sum(each) >= 20 * BATCH),
    large=st.integers(0, 2_000),
    place=st.floats(0, 1),
    spread=st.lists(st.integers(500, 900), min_size=1, max_size=5),
)
def test_the_error_after_a_third_is_below_a_half_for_all_sizes(
    chunks: list[int], large: int, place: float, spread: list[int]
) -> None:
    documents = [Planned(each, characters=spread[number % len(spread)]) for number, each in enumerate(chunks)]
    if large:
        documents.insert(round(place * len(documents)), Planned(large, characters=spread[0]))
    assert error_after_a_third(Simulation(documents)) < 0.5


@given(chunks=st.lists(st.integers(1, 400), min_size=2, max_size=60).filter(lambda each: sum(each) >= 20 * BATCH))
def test_the_estimate_does_not_climb_on_a_steady_machine(chunks: list[int]) -> None:
    simulation = Simulation([Planned(each) for each in chunks])
    estimates = [simulation.estimate() for _ in simulation.steps()]
    known = [each for each in estimates if each is not None]
    assert all(later < earlier for earlier, later in itertools.pairwise(known))


@given(chunks=st.lists(st.integers(1, 400), min_size=1, max_size=60))
def test_progress_grows_from_nothing_to_all(chunks: list[int]) -> None:
    simulation = Simulation([Planned(each) for each in chunks])
    shown = [simulation.progress() for _ in simulation.steps()]
    assert shown == sorted(shown)
    assert shown[-1] == 1
    assert all(each < 1 for each in shown[:-1])


def test_an_estimate_follows_a_machine_that_becomes_half_as_fast() -> None:
    simulation = Simulation([Planned(30)] * 60, lambda made: 0.2 if made < 900 else 0.4)
    estimates = [(at_s, simulation.estimate()) for at_s in simulation.steps()]
    total_s = estimates[-1][0]
    # Half of the time after the change: a quarter of the chunks are left.
    at_s, estimate = next(each for each in estimates if each[0] >= 0.2 * 900 + 0.4 * 450)
    assert estimate is not None
    assert abs(estimate - (total_s - at_s)) / (total_s - at_s) < 0.25


def test_an_estimate_is_no_more_unsteady_than_the_machine() -> None:
    unsteady = Simulation([Planned(60)] * 100, lambda made: 0.1 if made // 400 % 2 else 0.3)
    assert error_after_a_third(unsteady) < 0.25


def test_what_the_last_run_took_tells_how_long_the_next_one_takes_before_it_has_begun() -> None:
    earlier = [(-10_000 + 3.2 * number, BATCH) for number in range(10)]
    simulation = Simulation([Planned(100)], earlier=earlier)
    next(simulation.steps())
    assert simulation.estimate() == pytest.approx(84 * 0.2)


def test_a_run_that_has_just_begun_does_not_replace_the_pace_of_the_one_before() -> None:
    earlier = [(-10_000 + 3.2 * number, 16) for number in range(10)]
    begun = [(0, 1), (2, 1), (4, 1)]
    assert measure_pace([*earlier, *begun]) == pytest.approx(5)
    assert measure_pace(begun) == pytest.approx(0.5)
    assert measure_pace([*earlier, *begun, (10, 8)]) == pytest.approx(1)


def test_nothing_is_said_if_nothing_is_known() -> None:
    work = WorkLeft(uncut=10, expected=10)
    assert estimate_seconds(work, done=[], vectors_per_s=None) is None
    assert measure_pace([]) is None
    assert measure_pace([(0, 16), (3, 16)]) is None


def test_documents_whose_vectors_are_kept_go_as_fast_as_documents_went() -> None:
    documents = [OpenDocument(chunks_before=50, keeps_vectors=True)] * 30
    done = [IndexedLately(0.5 * number, 50, 0, 50) for number in range(20)]
    work = weigh(documents, characters=700, mean_chunks=1)
    assert estimate_seconds(work, done=done, vectors_per_s=0.01) == pytest.approx(15)
    assert progress(work, live=3_000) == 0.5


def test_a_cache_that_had_fifty_documents_whole_is_expected_to_have_the_others() -> None:
    done = [IndexedLately(0.1 * number, 10, 0, 10) for number in range(50)]
    work = weigh([OpenDocument(text_length=7_000)] * 100, characters=700, mean_chunks=1)
    assert estimate_seconds(work, done=done, vectors_per_s=5) == pytest.approx(10)
    assert estimate_seconds(work, done=done[:49], vectors_per_s=5) == pytest.approx(200)


@pytest.mark.parametrize(
    ("document", "live", "expected"),
    [
        # It is indexed again, with twice as many chunks: none of the ones of its earlier text count.
        (OpenDocument(chunk_count=20, embedded_count=5, chunks_before=10), 10, 0.25),
        (OpenDocument(leaves=True, chunks_before=10), 10, 0),
        (OpenDocument(leaves=True, chunks_before=10), 19, 0.9),
        # All vectors are there, and the swap is to come.
        (OpenDocument(chunk_count=10, embedded_count=10), 0, 0.9),
        # An unknown length counts as a document like the others.
        (OpenDocument(), 30, 0.75),
    ],
)
def test_progress_is_a_share_of_the_chunks(document: OpenDocument, live: int, expected: float) -> None:
    work = weigh([document], characters=700, mean_chunks=10)
    assert progress(work, live=live) == pytest.approx(expected)


@given(
    st.lists(
        st.builds(
            OpenDocument,
            text_length=st.none() | st.integers(0, 10_000),
            chunk_count=st.none() | st.integers(0, 500),
            embedded_count=st.integers(0, 500),
            chunks_before=st.integers(0, 500),
            keeps_vectors=st.booleans(),
            leaves=st.booleans(),
        )
    ),
    st.integers(0, 1_000),
)
def test_progress_is_a_share_whatever_is_counted_when(documents: list[OpenDocument], live: int) -> None:
    share = progress(weigh(documents, characters=700, mean_chunks=3), live=live)
    assert 0 <= share <= 1
    assert (share == 1) == (not documents)
