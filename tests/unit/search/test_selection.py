"""Which hits become results: rule 1 of docs/explanation/architecture.md, order, pages."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kb_search.retrieval.fusion import Candidate, Weights, fuse
from kb_search.retrieval.selection import (
    KnowledgeBaseHits,
    ResultPage,
    candidates_to_read,
    cut_page,
    end_of_ties,
    extend_over_ties,
    filter_by_min_score,
    first_read_size,
    leg_limit,
    may_be_superseded,
    merge_copies,
    next_limit,
    select_visible_hits,
)

LATELY_MS, LONG_AGO_MS = 29_999, 30_000


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
        "chunk_text": identity,
        "since": since,
        "until": until,
        "retired_for_ms": retired_for_ms,
    }


def shown(*rows: dict[str, Any], indexed: tuple[str, ...] = ("d",)) -> list[str]:
    by_id = {one["_id"]: one for one in rows}
    return [
        hit.chunk["_id"]
        for hit in select_visible_hits("k", ranked(dict.fromkeys(by_id, 0.5)), rows=by_id, indexed=indexed)
    ]


def ranked(scores: Mapping[str, float]) -> list[Candidate]:
    return fuse(scores, {}, Weights(1.0, 1.0))


@dataclass(frozen=True)
class History:
    """Versions of a document, and the chunks that are hits when it is read."""

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
def test_shown_hits_of_a_document_are_of_one_version_and_never_empty(history: History) -> None:
    texts = {int(identity.rpartition(":")[2]) for identity in shown(*map(history.row, history.hits))}
    assert texts
    assert any(texts <= version for version in history.versions)
    live = history.hits & history.versions[-1]
    if live:
        assert texts == live


def test_a_live_hit_hides_replaced_chunks() -> None:
    assert shown(row("d:1", until=3, retired_for_ms=1), row("d:2", since=4)) == ["d:2"]


def test_replaced_chunks_are_shown_for_thirty_seconds_while_no_hit_of_the_document_is_live() -> None:
    assert shown(row("d:1", until=3, retired_for_ms=LATELY_MS)) == ["d:1"]
    assert shown(row("d:1", until=3, retired_for_ms=LONG_AGO_MS)) == []


def test_only_one_replaced_version_is_shown() -> None:
    older, newer, in_both = (
        row("d:0", until=1, retired_for_ms=1),
        row("d:1", since=2, until=2, retired_for_ms=1),
        row("d:2", until=2, retired_for_ms=1),
    )
    assert shown(older, newer, in_both) == ["d:1", "d:2"]


def test_documents_are_judged_one_by_one() -> None:
    replaced = row("d:1", until=3, retired_for_ms=1)
    assert shown(replaced, row("e:2", document_id="e"), indexed=("d", "e")) == ["d:1", "e:2"]


def test_a_document_whose_row_is_gone_is_dropped() -> None:
    assert shown(row("d:1"), row("e:2", document_id="e"), indexed=("e",)) == ["e:2"]


def test_results_stand_by_score_and_equal_scores_in_a_fixed_order() -> None:
    rows = [row("d:1"), row("e:1", document_id="e"), row("d:0"), row("e:2", document_id="e")]
    scores = {"d:1": 0.5, "e:1": 0.5, "d:0": 0.5, "e:2": 0.9}
    for order in (rows, rows[::-1]):
        hits = select_visible_hits("k", ranked(scores), rows={one["_id"]: one for one in order}, indexed=["d", "e"])
        assert [hit.chunk["_id"] for hit in hits] == ["e:2", "d:0", "d:1", "e:1"]


def test_relevance_is_never_beyond_one() -> None:
    assert (
        select_visible_hits("k", ranked({"d:1": 1.0000001}), rows={"d:1": row("d:1")}, indexed=["d"])[0].relevance
        == 1.0
    )


def found(
    *scores: float, unread: int = 0, min_score: float | None = None, exhausted: bool = True, kb_id: str = "k"
) -> KnowledgeBaseHits:
    """Build the hits of a KB of which the last `unread` scores have not been read."""
    candidates = ranked({f"d:{n}": score for n, score in enumerate(scores)})
    read = candidates[: len(candidates) - unread]
    hits = select_visible_hits(kb_id, read, rows={one.chunk_id: row(one.chunk_id) for one in read}, indexed=["d"])
    return filter_by_min_score(
        hits, candidates[len(read) :], min_score=min_score, exhausted=exhausted, text_exhausted=True
    )


def page(*found: KnowledgeBaseHits, skip: int = 0, top_k: int = 20) -> ResultPage:
    return cut_page(found, skip=skip, top_k=top_k)


@given(st.integers(0, 30), st.integers(1, 20))
def test_pages_of_any_size_cover_each_hit_once(total: int, top_k: int) -> None:
    known = found(*(1 - n / 100 for n in range(total)))
    pages = [page(known, skip=skip, top_k=top_k).hits for skip in range(0, 30 + 1, top_k)]
    assert [hit for hits in pages for hit in hits] == known.hits


def test_min_score_cuts_by_relevance_and_makes_the_count_exact() -> None:
    cut = page(found(0.9, 0.7, 0.69, min_score=0.7, exhausted=False), top_k=1)
    assert (len(cut.hits), cut.total_count, cut.total_count_is_exact) == (1, 2, True)


def test_the_count_is_not_exact_while_the_index_may_have_more() -> None:
    assert not page(found(0.9, 0.8, min_score=0.5, exhausted=False)).total_count_is_exact
    assert not page(found(0.9, 0.8, exhausted=False)).total_count_is_exact


def test_candidates_that_were_not_read_count_but_are_no_promise() -> None:
    known = page(found(0.9, 0.8, 0.7, unread=2))
    assert (len(known.hits), known.total_count, known.total_count_is_exact) == (1, 3, False)
    relevant = page(found(0.9, 0.8, 0.6, unread=2, min_score=0.7))
    assert (relevant.total_count, relevant.total_count_is_exact) == (2, False)


def test_a_minimum_never_removes_what_the_words_found() -> None:
    by_words = fuse({"d:1": 0.6, "d:2": 0.5}, {"d:0": 7.0, "d:1": 1.0}, Weights(1.0, 1.0))
    hits = select_visible_hits("k", by_words, rows={name: row(name) for name in ("d:0", "d:1", "d:2")}, indexed=["d"])
    hits = [replace(hit, cosine_score=0.1) if hit.scores.vector is None else hit for hit in hits]
    known = filter_by_min_score(hits, [], min_score=0.7, exhausted=True, text_exhausted=True)
    assert {hit.chunk["_id"] for hit in known.hits} == {"d:0", "d:1"}
    assert known.is_all


def test_where_a_minimum_cuts_the_vectors_there_may_still_be_more_words() -> None:
    words = {"d:2": 7.0, "d:3": 6.0, "d:4": 5.0}
    candidates = fuse({"d:0": 0.9, "d:1": 0.6, "d:4": 0.5}, words, Weights(1.0, 0.5))
    beyond = {"d:3", "d:4"}
    read = [one for one in candidates if one.chunk_id not in beyond]
    hits = select_visible_hits("k", read, rows={one.chunk_id: row(one.chunk_id) for one in read}, indexed=["d"])
    unread = [one for one in candidates if one.chunk_id in beyond]
    known = filter_by_min_score(hits, unread, min_score=0.7, exhausted=False, text_exhausted=True)
    assert (len(known.hits), known.unread, known.is_all) == (2, 2, False)
    assert not filter_by_min_score(hits, [], min_score=0.7, exhausted=False, text_exhausted=False).is_all
    assert filter_by_min_score(hits, [], min_score=0.7, exhausted=False, text_exhausted=True).is_all


def test_hits_of_several_knowledge_bases_come_by_their_scores_and_a_chunk_in_two_comes_once() -> None:
    first, second = found(0.9, 0.8, kb_id="k1"), found(0.3, 0.2, kb_id="k2")
    together = page(second, first)
    assert [(hit.kb_id, hit.chunk["_id"]) for hit in together.hits] == [("k1", "d:0"), ("k1", "d:1")]
    others = select_visible_hits("k2", ranked({"e:0": 0.1}), rows={"e:0": row("e:0", document_id="e")}, indexed=["e"])
    third = filter_by_min_score(others, [], min_score=None, exhausted=True, text_exhausted=True)
    assert [hit.chunk["_id"] for hit in page(third, first).hits] == ["d:0", "d:1", "e:0"]


def test_entries_of_knowledge_with_one_text_are_each_found_and_documents_are_copies() -> None:
    rows = {"d:0": row("d:0"), "e:0": row("e:0", document_id="e")}
    for each in rows.values():
        each["chunk_text"] = "Ask for the key."
    for are_entries, expected in ((True, ["d:0", "e:0"]), (False, ["d:0"])):
        hits = select_visible_hits(
            "k", ranked({"d:0": 0.9, "e:0": 0.8}), rows=rows, indexed=["d", "e"], are_entries=are_entries
        )
        assert [hit.chunk["_id"] for hit in merge_copies(hits)] == expected


def test_an_index_is_asked_for_a_fifth_and_ten_more_hits_than_the_page_needs() -> None:
    assert candidates_to_read(5) == 16
    assert candidates_to_read(1020) == 1234


def test_the_first_read_is_a_fifth_more_than_the_page_needs_or_all_hits_if_they_are_few() -> None:
    many = ranked({f"d:{number}": 1 - number / 100 for number in range(40)})
    read = partial(first_read_size, are_all=False, by_relevance=False)
    assert [read(many, wanted) for wanted in (1, 5, 10)] == [2, 6, 12]
    assert read(many, 10, by_relevance=True) == 22
    assert read(many[:16], 5) == 6
    assert read(many[:16], 5, are_all=True) >= 16
    assert read(many[:17], 5, are_all=True) == 6


def test_a_replaced_chunk_may_be_superseded_only_by_an_unread_hit_of_its_document() -> None:
    candidates = ranked({"d:0": 0.9, "e:0": 0.8, "d:1": 0.7})
    live, replaced = row("d:0"), row("d:0", until=1, retired_for_ms=5)
    for chunk, expected in ((live, False), (replaced, True)):
        hits = select_visible_hits("k", candidates[:1], rows={"d:0": chunk}, indexed=["d"])
        assert (may_be_superseded(hits, candidates[1:]), may_be_superseded(hits, candidates[1:2])) == (expected, False)


def test_the_first_pages_of_a_search_rank_the_same_hits() -> None:
    assert {leg_limit(wanted) for wanted in range(1, 76)} == {100}
    assert leg_limit(1020) >= candidates_to_read(1020)


def test_a_text_search_asks_for_as_many_text_hits_as_a_hybrid_search() -> None:
    assert next_limit(candidates_to_read(5)) == next_limit(candidates_to_read(75)) == leg_limit(5)
    assert next_limit(5_000) == 5_000


def test_no_hit_with_the_score_of_the_last_one_read_is_left_unread() -> None:
    candidates = ranked({"d:0": 0.9, "d:1": 0.8, "d:2": 0.8, "d:3": 0.8, "d:4": 0.7})
    assert [extend_over_ties(candidates, size) for size in range(7)] == [0, 1, 4, 4, 4, 5, 6]
    assert extend_over_ties([], 3) == 3


@given(st.lists(st.integers(0, 3)), st.integers(1, 20))
def test_scores_equal_to_the_one_at_the_limit_are_on_one_side(scores: list[int], limit: int) -> None:
    ordered = sorted((float(score) for score in scores), reverse=True)
    end = end_of_ties(ordered, limit)
    assert end >= limit
    assert set(ordered[:end]).isdisjoint(ordered[end:])
    assert set(ordered[limit:end]) <= set(ordered[:limit][-1:])


def visible(**texts: str) -> list[Any]:
    """Return hits with these texts, best first, one for each document."""
    rows = {f"{name}:0": row(f"{name}:0", document_id=name) | {"chunk_text": text} for name, text in texts.items()}
    scores = {identity: 1 - number / 100 for number, identity in enumerate(rows)}
    return select_visible_hits("k", ranked(scores), rows=rows, indexed=[*texts])


def test_copies_take_the_place_of_the_best_of_them() -> None:
    merged = merge_copies(visible(a="Pay by Friday.", b="Call first.", c="Pay by Friday. ", d="Pay by Friday."))
    assert [(hit.chunk["_id"], [copy.chunk["_id"] for copy in hit.copies]) for hit in merged] == [
        ("a:0", ["c:0", "d:0"]),
        ("b:0", []),
    ]


def test_the_same_text_under_another_heading_is_another_passage() -> None:
    first, second = visible(a="24 months.", b="24 months.")
    warranty = replace(first, chunk=first.chunk | {"heading_path": ["Warranty"]})
    lease = replace(second, chunk=second.chunk | {"heading_path": ["Lease"]})
    assert len(merge_copies([warranty, lease])) == 2
    assert len(merge_copies([warranty, replace(lease, chunk=lease.chunk | {"heading_path": ["Warranty"]})])) == 1


def test_copies_in_several_knowledge_bases_take_one_place_and_are_all_named() -> None:
    mine = filter_by_min_score(visible(a="x", b="x"), [], min_score=None, exhausted=True, text_exhausted=True)
    others = [replace(hit, kb_id="other") for hit in visible(c="x", d="y")]
    theirs = filter_by_min_score(others, [], min_score=None, exhausted=True, text_exhausted=True)
    together = page(mine, theirs)
    assert [hit.chunk["_id"] for hit in together.hits] == ["a:0", "d:0"]
    assert {copy.chunk["_id"] for copy in together.hits[0].copies} == {"b:0", "c:0"}
    assert together.total_count == 2


@given(st.lists(st.sampled_from("xyz")), st.integers(1, 4))
def test_pages_show_each_text_once_and_name_each_chunk_once(texts: list[str], top_k: int) -> None:
    hits = visible(**{f"d{number}": text for number, text in enumerate(texts)})
    known = filter_by_min_score(hits, [], min_score=None, exhausted=True, text_exhausted=True)
    shown_hits = [hit for skip in range(0, len(texts) + 1, top_k) for hit in page(known, skip=skip, top_k=top_k).hits]
    assert sorted(hit.chunk["chunk_text"] for hit in shown_hits) == sorted(set(texts))
    named = [one.chunk["_id"] for hit in shown_hits for one in (hit, *hit.copies)]
    assert sorted(named) == sorted(hit.chunk["_id"] for hit in hits)
