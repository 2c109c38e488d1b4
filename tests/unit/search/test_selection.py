"""Which hits become results: rule 1, order, pages."""

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kb_search.selection import candidates_for, page_of, showable

LATELY_MS, LONG_AGO_MS = 9_999, 10_000


def row(
    identity: str,
    *,
    document_id: str = "d",
    since: int = 1,
    until: int | None = None,
    retired_for_ms: int | None = None,
) -> dict[str, Any]:
    return {
        "_id": identity,
        "document_id": document_id,
        "chunk_index": int(identity.rpartition(":")[2]),
        "since": since,
        "until": until,
        "retired_for_ms": retired_for_ms,
    }


def shown(*rows: dict[str, Any], indexed: tuple[str, ...] = ("d",)) -> list[str]:
    by_id = {one["_id"]: one for one in rows}
    return [hit.chunk["_id"] for hit in showable(dict.fromkeys(by_id, 0.5), by_id, indexed)]


@dataclass(frozen=True)
class History:
    """What the versions of a document consisted of; of which, when read, some chunks are hits."""

    versions: list[frozenset[int]]
    hits: frozenset[int]

    def row(self, text: int) -> dict[str, Any]:
        """As swaps leave it: a text that comes back is its old row, with a new range."""
        until: int | None = len(self.versions)
        while until and text not in self.versions[until - 1]:
            until -= 1
        since = until
        while since and since > 1 and text in self.versions[since - 2]:
            since -= 1
        live = until == len(self.versions)
        assert since is not None
        return row(f"d:{text}", since=since, until=None if live else until, retired_for_ms=None if live else LATELY_MS)


@st.composite
def histories(draw: st.DrawFn) -> History:
    texts = st.integers(0, 7)
    versions = draw(st.lists(st.frozensets(texts, min_size=1), min_size=1, max_size=6))
    ever = frozenset().union(*versions)
    return History(versions, draw(st.frozensets(st.sampled_from(sorted(ever)), min_size=1)))


@given(histories())
def test_what_is_shown_of_a_document_is_never_mixed_and_never_empty(history: History) -> None:
    texts = {int(identity.rpartition(":")[2]) for identity in shown(*map(history.row, history.hits))}
    assert texts
    assert any(texts <= version for version in history.versions)
    live = history.hits & history.versions[-1]
    if live:
        assert texts == live


def test_a_live_hit_hides_what_was_replaced() -> None:
    assert shown(row("d:1", until=3, retired_for_ms=1), row("d:2", since=4)) == ["d:2"]


def test_what_was_replaced_is_shown_for_ten_seconds_while_nothing_of_the_document_is_live() -> None:
    assert shown(row("d:1", until=3, retired_for_ms=LATELY_MS)) == ["d:1"]
    assert shown(row("d:1", until=3, retired_for_ms=LONG_AGO_MS)) == []


def test_documents_are_judged_one_by_one() -> None:
    replaced = row("d:1", until=3, retired_for_ms=1)
    assert shown(replaced, row("e:2", document_id="e"), indexed=("d", "e")) == ["d:1", "e:2"]


def test_a_document_whose_row_is_gone_is_dropped() -> None:
    assert shown(row("d:1"), row("e:2", document_id="e"), indexed=("e",)) == ["e:2"]


def test_results_stand_by_score_and_equal_scores_in_a_fixed_order() -> None:
    rows = [row("d:1"), row("e:1", document_id="e"), row("d:0"), row("e:2", document_id="e")]
    scores = {"d:1": 0.5, "e:1": 0.5, "d:0": 0.5, "e:2": 0.9}
    for order in (rows, rows[::-1]):
        hits = showable(scores, {one["_id"]: one for one in order}, ["d", "e"])
        assert [hit.chunk["_id"] for hit in hits] == ["e:2", "d:0", "d:1", "e:1"]


def test_relevance_is_never_beyond_one() -> None:
    assert showable({"d:1": 1.0000001}, {"d:1": row("d:1")}, ["d"])[0].relevance == 1.0


def hits_of(*scores: float) -> Any:
    ids = {f"d:{n}": score for n, score in enumerate(scores)}
    return showable(ids, {identity: row(identity) for identity in ids}, ["d"])


@given(st.integers(0, 30), st.integers(1, 20))
def test_pages_of_any_size_cover_each_hit_once(total: int, top_k: int) -> None:
    hits = hits_of(*(1 - n / 100 for n in range(total)))
    pages = [
        page_of(hits, skip=skip, top_k=top_k, min_score=None, exhausted=True).hits for skip in range(0, 30 + 1, top_k)
    ]
    assert [hit for page in pages for hit in page] == hits


def test_min_score_cuts_by_relevance_and_makes_the_count_exact() -> None:
    page = page_of(hits_of(0.9, 0.7, 0.69), skip=0, top_k=1, min_score=0.7, exhausted=False)
    assert (len(page.hits), page.total_count, page.total_count_is_exact) == (1, 2, True)


def test_the_count_is_not_exact_while_the_index_may_have_more() -> None:
    assert not page_of(hits_of(0.9, 0.8), skip=0, top_k=1, min_score=0.5, exhausted=False).total_count_is_exact


def test_a_fifth_more_and_ten_are_asked_for_than_the_page_needs() -> None:
    assert candidates_for(skip=0, top_k=5) == 16
    assert candidates_for(skip=1000, top_k=20) == 1234
