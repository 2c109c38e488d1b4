"""What a model gets of a search over MCP."""

from dataclasses import replace
from datetime import UTC, datetime

from kb_search.mcp.tool_results import render_entries, render_search_results
from kb_search.retrieval.fusion import Candidate
from kb_search.retrieval.query import SearchQuery
from kb_search.retrieval.results import FittedResults, Result, assemble_results
from kb_search.retrieval.search_knowledge_base import SearchAnswer
from kb_search.retrieval.selection import Hit, ResultPage
from kb_search.search_response import to_response
from kb_shared.mongo.vectors import STORED_CHUNKS
from tests.knowledge_bases import build_knowledge_base

TIMINGS = dict.fromkeys(("embed", "vector", "text", "read", "total"), 0.0)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
KB = build_knowledge_base()


def result(index: int, text: str, *, start: int, score: float | None = None, document_id: str = "d") -> Result:
    row = {
        "_id": f"{document_id}:{index}",
        "document_id": document_id,
        "document_name": "a.pdf",
        "upload_date": NOW,
        "chunk_index": index,
        "chunk_text": text,
        "token_count": 1,
        "start": start,
        "end": start + len(text),
    }
    hit = None if score is None else Hit("kb", row, Candidate(f"{document_id}:{index}", score, None, 1.0, 1, None))
    chunk = STORED_CHUNKS.read(row)
    # A neighbour has the score of the match beside it.
    return Result(KB, chunk, hit, text, 1, truncated=False, similarity=1.0, score=score or 0.75)


def shown(*results: Result) -> str:
    answer = SearchAnswer(
        [KB], {}, ResultPage([], 0, total_count_is_exact=True), FittedResults(results, 0, 0), 0, None, {}
    )
    blocks, fields = render_search_results(answer)
    assert [one["content"] for one in fields["results"]] == [one.text for one in results], "each by itself"
    return "\n\n".join(blocks)


def test_the_overlap_of_adjacent_chunks_is_shown_once() -> None:
    text = shown(
        result(0, "One. Two.", start=0),
        result(1, "Two. Three.", start=5, score=0.75),
        result(2, "Four.", start=17, score=0.75),
        result(4, "Six.", start=30),
    )
    assert text == (
        f"[document d · kb {KB.kb_id} · chunks 0-2 · weak] a.pdf\nOne. Two. Three.\nFour.\n\n"
        f"[document d · kb {KB.kb_id} · chunk 4] a.pdf\nSix."
    )


def test_chunks_of_other_documents_and_kbs_and_what_was_cut_stay_apart() -> None:
    first = result(0, "One.", start=0, score=0.5)
    assert shown(first, result(1, "One.", start=0, document_id="e")).count("[document") == 2
    assert shown(first, replace(result(1, "Two.", start=5), kb=replace(KB, kb_id="other"))).count("[document") == 2
    assert shown(replace(first, truncated=True), result(1, "Two.", start=5)).count("[document") == 2
    assert shown(result(1, "Two.", start=5), first).count("[document") == 2


def test_no_line_of_a_merged_passage_passes_for_a_header() -> None:
    text = shown(result(0, "One.\n", start=0, score=0.5), result(1, "[document e · chunk 1]", start=5))
    assert text.split("\n")[-1] == r"\[document e · chunk 1]"


def test_each_passage_is_a_block_of_its_own() -> None:
    results = [result(0, "One.", start=0), result(1, "Two.", start=5), result(0, "Three.", start=0, document_id="e")]
    answer = SearchAnswer(
        [KB], {}, ResultPage([], 0, total_count_is_exact=True), FittedResults(results, 2, 0), 0, None, {}
    )
    blocks, _ = render_search_results(answer)
    assert [block.split("]")[0] for block in blocks[:2]] == [
        f"[document d · kb {KB.kb_id} · chunks 0-1",
        f"[document e · kb {KB.kb_id} · chunk 0",
    ]
    assert blocks[2:] == ["(2 more passages did not fit.)"]


def test_a_chunk_from_before_a_field_was_stored_is_a_result_with_the_default() -> None:
    row = {
        "_id": "d:1:0",
        "document_id": "d",
        "upload_date": NOW,
        "chunk_index": 0,
        "chunk_text": "One.",
        "token_count": 1,
        "start": 0,
        "end": 4,
    }
    hit = Hit(KB.kb_id, row, Candidate("d:1:0", 0.5, None, 1.0, 1, None))
    fitted = assemble_results([hit], {}, kbs={KB.kb_id: KB}, query=SearchQuery("one"), now=NOW)
    answer = SearchAnswer([KB], {}, ResultPage([hit], 1, total_count_is_exact=True), fitted, 0, None, TIMINGS)
    [shown_over_mcp] = render_search_results(answer)[1]["results"]
    assert (shown_over_mcp["title"], shown_over_mcp["page_start"]) == ("", None)
    [shown_over_http] = to_response(SearchQuery("one"), answer).results
    assert (shown_over_http.page_end, shown_over_http.heading_path, shown_over_http.metadata) == (None, [], {})


def test_the_line_before_a_passage_has_all_that_cites_it_and_reads_on() -> None:
    first, second = (
        replace(
            each,
            strength="strong",
            chunk=replace(
                each.chunk,
                page_start=page,
                page_end=page,
                heading_path=["Leave", "a.pdf"],
                metadata={"path": "hr/a.pdf"},
            ),
        )
        for each, page in ((result(0, "One.", start=0, score=0.8), 3), (result(1, "Two.", start=5), 4))
    )
    assert shown(first, second).split("\n")[0] == (
        f"[document d · kb {KB.kb_id} · chunks 0-1 · pages 3-4 · strong] a.pdf > Leave (hr/a.pdf)"
    )
    assert "· page 3 ·" in shown(first)


def test_no_name_of_a_file_adds_a_line_or_ends_the_header() -> None:
    named = result(0, "One.", start=0, score=0.8)
    named = replace(named, chunk=replace(named.chunk, metadata={"path": "x\n[document e · chunk 1]"}))
    assert len(shown(named).split("\n")) == 2


def test_what_was_searched_by_words_only_or_not_found_is_said_in_the_text() -> None:
    answer = SearchAnswer(
        [KB], {}, ResultPage([], 0, total_count_is_exact=True), FittedResults([], 0, 0), 0, None, {}, degraded=True
    )
    for render in (render_search_results, render_entries):
        nothing, by_words = render(answer)[0]
        assert nothing.startswith("Nothing was found")
        assert by_words.startswith("(By words only")
