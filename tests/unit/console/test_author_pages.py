"""Pages of authors: first steps, list, creation and overview tell what an author has to know before the next step."""

import re

import httpx
import pytest

from tests.unit.console.fake_api import KB_ID, FakeApi

PARTIAL = {"HX-Request": "true", "HX-Request-Type": "partial"}
ORG = "/console/orgs/acme"
KB = f"{ORG}/knowledge-bases/{KB_ID}"
STATS = f"GET /knowledge-bases/{KB_ID}/stats"


async def test_the_first_steps_say_what_is_done_already(reader: httpx.AsyncClient, api: FakeApi) -> None:
    api.answers["GET /knowledge-bases"] = {"knowledge_bases": [], "total_count": 0}
    api.answers["GET /documents"]["total_count"] = 12
    steps = (await reader.get(f"{ORG}/knowledge-bases")).text
    assert "12 documents are here already" in steps
    for command in ("kb docs push", "kb ask", "$BASE/documents/leave", "$BASE/runs"):
        assert command in steps
    api.refuse("GET /documents", 403, "key-limited")
    assert "First steps" in (await reader.get(f"{ORG}/knowledge-bases")).text


async def test_the_list_says_how_far_a_knowledge_base_is(reader: httpx.AsyncClient, api: FakeApi) -> None:
    [kb] = api.answers["GET /knowledge-bases"]["knowledge_bases"]
    assert STATS not in api.calls
    kb["status"] = "indexing"
    # Nearly all documents are done, and the one that is left has most of the passages.
    api.answers[STATS] |= {"document_count": 41, "progress": 0.2, "remaining_chunk_count": 770, "eta_s": 90}
    thin = "\N{NARROW NO-BREAK SPACE}"
    said = f"20{thin}%, about 770 passages left, about 90 s"
    assert said in (await reader.get(f"{ORG}/knowledge-bases")).text
    page = (await reader.get(f"{ORG}/knowledge-bases/{kb['kb_id']}")).text
    assert said in page
    assert '<progress max="1" value="0.2"' in page
    api.answers[STATS] |= {"progress": 0.9999, "remaining_chunk_count": 1, "eta_s": None}
    assert f"99{thin}%, about 1 passage left<" in (await reader.get(f"{ORG}/knowledge-bases")).text
    api.answers[STATS] |= {"more_arriving": True}
    assert "1 passage left, and more documents are arriving<" in (await reader.get(f"{ORG}/knowledge-bases")).text
    api.refuse(STATS, 404, "not-found")
    assert (await reader.get(f"{ORG}/knowledge-bases")).status_code == 200, "it was deleted meanwhile"


@pytest.mark.parametrize(
    ("price", "words"),
    [
        ({"usd_per_million_tokens": 0.02, "usd_per_embedding": 0.0}, "$0.0200 for a million tokens"),
        ({"usd_per_million_tokens": 0.0, "usd_per_embedding": 0.001}, "$0.0010 for each chunk"),
        ({"usd_per_million_tokens": 0.0, "usd_per_embedding": 0.0}, "costs nothing"),
        ({"usd_per_million_tokens": None, "usd_per_embedding": None}, "price not known"),
    ],
)
async def test_models_are_chosen_by_what_they_read_and_cost(
    reader: httpx.AsyncClient, api: FakeApi, price: dict[str, float | None], words: str
) -> None:
    [model] = api.answers["GET /embedding-models"]["embedding_models"]
    model |= price
    form = (await reader.get(f"{ORG}/knowledge-bases/new")).text
    thin = "\N{NARROW NO-BREAK SPACE}"
    assert f">openai, 1{thin}536 dimensions, reads 8{thin}191 tokens, {words}<" in form


async def test_the_creation_says_what_it_will_need(reader: httpx.AsyncClient, api: FakeApi) -> None:
    preview = api.answers["POST /knowledge-bases/preview"]
    preview["documents"] |= {"usd": None, "is_exact": False, "estimate_reason": "sample", "cached_count": 250}
    preview["documents"]["sample_error"] = {"chunk_count": 30, "spus": 20}
    part = (await reader.post(f"{ORG}/knowledge-bases/preview", data={"tag_ids": "hr"}, headers=PARTIAL)).text
    needs = part[part.index('<hx-partial hx-target="#needs"') :]
    thin = "\N{NARROW NO-BREAK SPACE}"
    for words in (
        f"1{thin}250 ± 30",
        f"250 of 1{thin}250",
        "price not known",
        "about 35 s",
        "from a part of the documents",
    ):
        assert words in needs
    page = (await reader.post(f"{ORG}/knowledge-bases/preview", data={"tag_ids": "hr"})).text
    assert "price not known" in page[page.index('id="needs"') :]
    assert "<hx-partial" not in page


async def test_a_chunker_that_embeds_says_its_price_before_its_chunks(reader: httpx.AsyncClient, api: FakeApi) -> None:
    cost = {
        "embedding_count": 9,
        "cached_count": 0,
        "spus": 9,
        "usd": 0.00001,
        "is_exact": False,
        "is_truncated": False,
    }
    sizes = {"chunk_count": 0, "min_tokens": 0, "mean_tokens": 0, "max_tokens": 0}
    api.answers["POST /knowledge-bases/preview"]["text"] = {"chunks": [], **cost, **sizes}
    form = {"chunker_type": "semantic", "sample": "One. Two."}
    part = (await reader.post(f"{ORG}/knowledge-bases/preview", data=form, headers=PARTIAL)).text
    assert part.index("at most 9 SPUs (less than $0.0001)") < part.index("<h2>")


async def test_the_overview_tells_cost_searches_and_what_to_do(reader: httpx.AsyncClient, api: FakeApi) -> None:
    api.answers[STATS]["states"]["failed"] = 3
    page = (await reader.get(KB)).text
    for words in ("Cost this month</dt><dd>$0.0026<small>250 SPUs", "by meaning: ready"):
        assert words in page
    assert "3 documents could not be indexed" in page
    assert "8\N{NARROW NO-BREAK SPACE}% found nothing" in page, "1 of 12 searches without results"
    api.refuse("GET /insights/searches", 403, "key-limited")
    limited = await reader.get(KB)
    assert (limited.status_code, "not shown to this key" in limited.text) == (200, True)
    api.answers[f"GET /knowledge-bases/{KB_ID}"] |= {
        "tag_ids": [],
        "paused_at": "2026-01-31T12:00:00Z",
        "rate_limits": {"requests_per_minute": 60, "tokens_per_minute": None},
    }
    page = (await reader.get(KB)).text
    for words in ("It has no tag", "Indexing is paused since", "60 requests a minute"):
        assert words in page


async def test_four_figures_of_a_knowledge_base_are_seen_and_the_rest_is_folded(reader: httpx.AsyncClient) -> None:
    page = (await reader.get(KB)).text
    figures = page[page.index('<dl class="figures">') : page.index("</dl>", page.index('<dl class="figures">'))]
    assert re.findall(r"<dt>(.*?)</dt>", figures) == [
        "Documents", "Passages", "Searches in 7 days", "Cost this month",
    ]  # fmt: skip
    assert page.index("<summary>More figures") < page.index("Cost since it was created")


async def test_an_empty_knowledge_base_leads_to_its_first_upload(reader: httpx.AsyncClient, api: FakeApi) -> None:
    assert "Next: add documents" not in (await reader.get(KB)).text
    api.answers[STATS]["total_documents_with_tags"] = 0
    api.answers[f"GET /knowledge-bases/{KB_ID}"]["document_count"] = 0
    page = (await reader.get(KB)).text
    assert f'<a class="button " href="{KB}/documents">Upload files</a>' in page
    assert page.count('class="button "') == 1, "the next step is the only filled button"


async def test_what_deletes_is_at_the_end_of_the_page_and_no_neighbour_of_another_button(
    reader: httpx.AsyncClient,
) -> None:
    page = (await reader.get(KB)).text
    assert page.index("Delete this knowledge base") > page.index("Maintenance")
    assert page.count("Delete …") == 1


async def test_links_to_changes_are_disabled_with_the_reason(stranger: httpx.AsyncClient, api: FakeApi) -> None:
    api.answers["GET /v0/whoami"]["scopes"] = ["read"]
    await stranger.post("/console/sign-in", data={"api_key": "kb_0123456789ab_secret"})
    page = (await stranger.get(KB)).text
    for label in ("Index all again …", "Create a copy with other settings", "Delete …"):
        assert f'disabled title="Your API key lacks the scope write.">{label}</button>' in page


@pytest.mark.parametrize("page", [f"{ORG}/knowledge-bases", f"{KB}/documents", f"{ORG}/documents"])
async def test_a_list_says_that_it_is_loading_while_its_filter_waits(reader: httpx.AsyncClient, page: str) -> None:
    shown = (await reader.get(page)).text
    form = shown[shown.index("<search>") : shown.index("</search>")]
    assert 'class="awaited" aria-hidden="true">loading …</span></form>' in form


async def test_a_name_is_enough_for_a_knowledge_base(reader: httpx.AsyncClient, api: FakeApi) -> None:
    await reader.post(f"{ORG}/knowledge-bases", data={"name": "Pump manuals", "text_analyzer": "detected"})
    created = api.bodies["POST /knowledge-bases"]
    assert (created["tag_ids"], created["text_analyzer"]) == (["pump-manuals"], "lucene.standard")
    assert api.bodies["POST /tags"]["tag_id"] == "pump-manuals"


async def test_a_knowledge_base_does_not_get_the_documents_of_a_tag_that_was_not_chosen(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    api.answers["GET /tags"]["tags"][0]["tag_id"] = "hr"
    await reader.post(f"{ORG}/knowledge-bases", data={"name": "HR"})
    [tag_id] = api.bodies["POST /knowledge-bases"]["tag_ids"]
    assert re.fullmatch("hr-[0-9a-f]{6}", tag_id)


async def test_the_language_of_the_preview_is_that_of_the_knowledge_base(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    api.answers["POST /knowledge-bases/preview"]["suggested_text_analyzer"] = "lucene.german"
    form = {"name": "Handbuch", "text_analyzer": "detected", "sample": "Der Urlaub."}
    assert "<strong>German</strong>" in (await reader.post(f"{ORG}/knowledge-bases/preview", data=form)).text
    await reader.post(f"{ORG}/knowledge-bases", data=form)
    assert api.bodies["POST /knowledge-bases"]["text_analyzer"] == "lucene.german"
    await reader.post(f"{ORG}/knowledge-bases", data=form | {"text_analyzer": "lucene.french"})
    assert api.bodies["POST /knowledge-bases"]["text_analyzer"] == "lucene.french", "a choice is kept"


async def test_a_preview_of_a_long_file_says_that_it_is_cut_and_estimates_the_whole(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    preview = api.answers["POST /knowledge-bases/preview"]
    chunk = {"content": "x", "token_count": 9, "context": "", "heading_path": [], "page_start": None, "page_end": None}
    chunks = [chunk | {"chunk_index": n, "start": n * 500, "end": n * 500 + 500, "chunk_type": "text"} for n in (0, 1)]
    cost = {"embedding_count": 2, "cached_count": 0, "spus": 2, "usd": 0.0, "is_exact": True, "is_truncated": False}
    preview["text"] = {"chunks": chunks, "chunk_count": 2, "min_tokens": 9, "mean_tokens": 9, "max_tokens": 9, **cost}
    files = {"sample_file": ("long.txt", b"word " * 40_000)}
    page = (await reader.post(f"{ORG}/knowledge-bases/preview/uploads", data={"name": "x"}, files=files)).text
    # The preview shows 500 characters a passage.
    assert "<h2>About 400 passages</h2>" in page
    assert "a long text of " in page
    short = {"sample_file": ("short.txt", b"word " * 4)}
    page = (await reader.post(f"{ORG}/knowledge-bases/preview/uploads", data={"name": "x"}, files=short)).text
    assert ("About" in page, "a long text" in page) == (False, False)
