"""Search test: exactly the call that the options say, two of them side by side, and the same call as code."""

import ast
import json
import shlex
from typing import Any

import httpx
import pytest

from kb_console.search.code_samples import ShownSearch, list_samples
from kb_console.search.search_options import FilterRow, SearchOptions
from tests.unit.console.fake_api import KB_ID, FakeApi
from tests.unit.console.test_pages import PARTIAL

KB = f"/console/orgs/acme/knowledge-bases/{KB_ID}"
SEARCH = f"POST /knowledge-bases/{KB_ID}/search"
SEVERAL = "POST /knowledge-bases/search"


async def test_the_call_has_what_was_chosen_and_nothing_else(reader: httpx.AsyncClient, api: FakeApi) -> None:
    # As a browser sends the form: with all fields that were left empty.
    empty = "neighbors=&min_score=&max_tokens=&document_ids=&name=&tags=&since=&until=&key=&op=$eq&value="
    assert (await reader.get(f"{KB}/search?q=leave&{empty}")).status_code == 200
    assert api.bodies[SEARCH] == {"query": "leave", "top_k": 5, "mode": "hybrid"}
    chosen = "top_k=3&neighbors=0&min_score=0.5&max_tokens=900&priority=recency&tags=hr&since=2026-01-31"
    chosen += "&document_ids=a,b&document_ids=handbook"
    shown = await reader.get(f"{KB}/search?q=leave&{chosen}&key=year&op=$gte&value=2020&name=annual")
    assert api.bodies[SEARCH] == {
        "query": "leave",
        "top_k": 3,
        "mode": "hybrid",
        "document_ids": ["a", "b", "handbook"],
        "tag_ids": ["hr"],
        "metadata_filter": {"year": {"$gte": 2020}, "document_name": {"$contains": "annual"}},
        "upload_date_from": "2026-01-31T00:00:00Z",
        "min_score": 0.5,
        "coalesce_neighbors": 0,
        "max_tokens": 900,
        "prioritize_by": "recency",
    }
    assert "{&#34;year&#34;: {&#34;$gte&#34;: 2020}" in shown.text
    assert 'name="document_ids" value="handbook" checked>' in shown.text
    assert 'name="document_ids" value="a, b"' in shown.text, "those that are not in the list"


async def test_why_a_result_is_here_is_told_by_its_scores_and_ranks(reader: httpx.AsyncClient, api: FakeApi) -> None:
    scores = api.answers[SEARCH]["results"][0]["scores"]
    scores.update(vector=0.83, vector_rank=1203, text=None, text_rank=None)
    page = (await reader.get(f"{KB}/search?q=leave")).text
    assert "<dd>0.830, rank 1\u202f203</dd>" in page
    assert "<dt>words</dt><dd></dd><dd>not found this way</dd>" in page


async def test_an_unknown_document_that_is_asked_about_takes_no_result_away(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    api.refuse(f"{SEARCH}/explain", 404, "not-found")
    page = await reader.get(f"{KB}/search?q=leave&absent=typo")
    assert (page.status_code, 'class="results"' in page.text, "<bdi>typo</bdi>: " in page.text) == (200, True, True)


@pytest.mark.parametrize(
    ("rows", "made"),
    [
        ([("a", "$eq", "x y")], {"a": "x y"}),
        ([("a", "$in", "1, x")], {"a": {"$in": [1, "x"]}}),
        ([("a", "$gt", "1"), ("a", "$lt", "9")], {"$and": [{"a": {"$gt": 1}}, {"a": {"$lt": 9}}]}),
        ([("a", "$eq", '"1"'), ("b", "$ne", "true")], {"a": "1", "b": {"$ne": True}}),
        ([("a", "$eq", "[1]")], {"a": "[1]"}),
        ([], None),
    ],
)
def test_rows_make_a_filter(rows: list[tuple[str, str, str]], made: dict[str, Any] | None) -> None:
    assert SearchOptions(rows=[FilterRow(*row) for row in rows]).metadata_filter() == made


async def test_two_searches_are_side_by_side_with_equal_hits_linked(reader: httpx.AsyncClient, api: FakeApi) -> None:
    first = api.answers[SEARCH]["results"][0]
    api.answers[SEARCH]["results"] = [{**first, "document_id": "other"}, first]
    other = "65f1c2a3b4d5e6f708192aff"
    # The other knowledge base has cut the document at other places.
    moved = {**first, "start": 20, "end": 60, "kb_id": other, "chunk_id": "x"}
    api.answers[f"GET /knowledge-bases/{other}"] = api.answers[f"GET /knowledge-bases/{KB_ID}"] | {"name": "Other <b>"}
    api.answers[f"POST /knowledge-bases/{other}/search"] = {**api.answers[SEARCH], "results": [moved]}
    page = (await reader.get(f"{KB}/search?q=leave&compare=true&b_kb={other}&b_mode=text")).text
    assert api.bodies[f"POST /knowledge-bases/{other}/search"]["mode"] == "text"
    assert '<a href="#b-1" class="twin">= number 1' in page
    assert '<a href="#a-2" class="twin">= number 2' in page
    assert page.count("only here") == 1
    assert "1 hit on both sides" in page
    assert "<bdi>Other &lt;b&gt;</bdi></a></h2>" in page
    assert '<svg class="twins" aria-hidden="true"></svg>' in page, "a script draws the lines, which the links also say"


async def test_a_refused_filter_is_explained_beside_its_row(reader: httpx.AsyncClient, api: FakeApi) -> None:
    fields = [{"field": "metadata_filter.price", "message": "is not in filterable_metadata"}]
    api.refuse(SEARCH, 422, "validation-error", fields=fields)
    for headers in ({}, PARTIAL):
        page = (await reader.get(f"{KB}/search?q=leave&key=price&op=$gt&value=3", headers=headers)).text
        rows = page[page.index('aria-label="Condition on metadata 1"') :]
        assert '<small class="problem">is not in filterable_metadata</small>' in rows
        assert 'aria-label="Condition on metadata 2"' in rows, "one more to type into"


async def test_several_knowledge_bases_are_searched_at_once(reader: httpx.AsyncClient, api: FakeApi) -> None:
    failure = {"kb_id": KB_ID, "status": 503, "type": "unavailable", "detail": "It is being rebuilt."}
    api.answers[SEVERAL]["failures"] = [failure]
    page = (await reader.get(f"/console/orgs/acme/search?q=leave&kb_ids={KB_ID}")).text
    assert api.bodies[SEVERAL]["kb_ids"] == [KB_ID]
    assert "It is being rebuilt." in page
    await reader.get("/console/orgs/acme/search?q=leave")
    assert "kb_ids" not in api.bodies[SEVERAL]


def test_samples_make_the_same_call() -> None:
    arguments = {"top_k": 5, "metadata_filter": {"name": 'it\'s "here"', "new": True}}
    search = ShownSearch("http://api.example", "acme", KB_ID, 'A "question"\nof $two lines', arguments)
    samples = dict(list_samples(search))
    body = samples["curl"].split("<<'END'\n")[1].removesuffix("\nEND")
    assert json.loads(body) == {"query": search.query, **arguments}
    assert f"http://api.example/v0/orgs/acme/knowledge-bases/{KB_ID}/search" in shlex.split(
        samples["curl"].split("<<")[0]
    )
    calls = [node for node in ast.walk(ast.parse(samples["Python"])) if isinstance(node, ast.Call)]
    call = next(each for each in calls if isinstance(each.func, ast.Attribute) and each.func.attr == "search")
    assert [ast.literal_eval(each) for each in call.args] == [KB_ID, search.query]
    assert {each.arg: ast.literal_eval(each.value) for each in call.keywords} == arguments
    assert f'kb_id: "{KB_ID}"' in samples["TypeScript"]


@pytest.mark.parametrize(
    ("reason", "words"),
    [("beyond_page", "Ask for more results"), ("below_min_score", "Lower the minimum score"),
     ("filtered_out", "these filters: Dated from, year.")],
)  # fmt: skip
async def test_why_a_document_is_absent_is_said_in_the_words_of_the_page(
    reader: httpx.AsyncClient, api: FakeApi, reason: str, words: str
) -> None:
    explained = api.answers[f"{SEARCH}/explain"]
    explained |= {
        "reason": reason,
        "detail": "Raise top_k.",
        "filtered_out_by": ["upload_date_from", "metadata_filter.year"],
    }
    page = (await reader.get(f"{KB}/search?q=leave&absent=handbook.pdf")).text
    assert words in page
    assert "top_k" not in page[page.index('class="explained"') : page.index("How the document got here")]
    assert "<bdi>handbook.pdf</bdi>" in page
