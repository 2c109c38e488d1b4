"""All pages, in all their states, with an API that is not there."""

from html.parser import HTMLParser

import httpx
import pytest

from tests.unit.console import operator_pages
from tests.unit.console.fake_api import DOCUMENT_ID, KB_ID, FakeApi
from tests.unit.console.fake_runs import PAGES_OF_RUNS
from tests.unit.console.knowledge_pages import KNOWLEDGE_PAGES, WITHOUT_CALLS

ORG = "/console/orgs/acme"
KB = f"{ORG}/knowledge-bases/{KB_ID}"
PAGES = [
    f"{ORG}/knowledge-bases",
    f"{ORG}/knowledge-bases/new",
    f"{ORG}/knowledge-bases/new?copy={KB_ID}",
    KB,
    f"{KB}/documents",
    f"{KB}/documents/{DOCUMENT_ID}",
    f"{KB}/documents/{DOCUMENT_ID}?cited=gone",
    f"{KB}/search",
    f"{KB}/search?q=leave&mode=text&absent=handbook",
    f"{KB}/search?q=leave&compare=true&b_mode=text&key=year&op=$gte&value=2020",
    f"{ORG}/documents",
    f"{ORG}/documents?in_no_kb=true&status=failed",
    f"{ORG}/search",
    f"{ORG}/search?q=leave&kb_ids={KB_ID}",
    f"{KB}/settings",
    f"{KB}/tool",
    f"{KB}/delete",
    f"{KB}/reindex",
    *operator_pages.PAGES,
    *KNOWLEDGE_PAGES,
    *PAGES_OF_RUNS,
]
PARTIAL = {"HX-Request": "true", "HX-Request-Type": "partial"}


class FoundLinks(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs).get("href")
        if tag == "a" and found and not found.startswith("#"):
            self.links.add(found)


async def test_all_pages_are_shown_and_so_is_what_they_link_to(admin: httpx.AsyncClient) -> None:
    links: dict[str, str] = {}
    for page in PAGES:
        shown = await admin.get(page)
        assert shown.status_code == 200, shown.text
        links |= dict.fromkeys(FoundLinks(shown.text).links, page)
    for link, page in links.items():
        if link.startswith("/"):
            assert (await admin.get(link, follow_redirects=True)).status_code == 200, f"{link} on {page}"


WITH_TEXTS = [
    page
    for page in PAGES
    if page not in {f"{KB}/search", f"{ORG}/chat", f"{ORG}/search", *WITHOUT_CALLS, *operator_pages.WITHOUT_TEXTS}
]
HOSTILE = '"><script>alert(1)</script><b hx-get="/console/x" hx-trigger="load" onclick=\'y\'>{{ 7 * 7 }}\u202e'
TEXTS = frozenset(
    {"name", "description", "status_reason", "warnings", "document_name", "message", "content", "source",
     "heading_path", "detail", "tag_ids", "shared_tag_ids", "knowledge_base_tag_ids", "tag_id", "key_name", "query",
     "trace_id", "title", "excerpt", "text", "entry_title", "label", "tags", "messages", "entity_id", "node_id",
     "specialization", "embedding_model", "chunker_type", "text_analyzer", "provider", "type",
     "answer", "model", "arguments", "tool", "instructions", "tool_name", "tool_description", "kb_name"}
)  # fmt: skip


class FoundForms(HTMLParser):
    """Collects forms in forms: a browser leaves the inner one out, and ends the outer one where the inner one ends."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.nested: list[str] = []
        self._depth = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # of the parser
        if tag == "form":
            self._depth += 1
            if self._depth > 1:
                self.nested.append(self.get_starttag_text() or tag)

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == "form"


@pytest.mark.parametrize("page", PAGES)
async def test_no_form_is_in_another_one(admin: httpx.AsyncClient, page: str) -> None:
    assert FoundForms((await admin.get(page)).text).nested == []


class FoundMarkup(HTMLParser):
    """Collects what a browser would run or ask for."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if (tag == "script" and "src" not in names) or tag == "b" or any(name.startswith("on") for name in names):
            self.found.append(self.get_starttag_text() or tag)
        if any(name.startswith("hx-") for name in names) and "hx-nonce" not in names and tag != "hx-partial":
            self.found.append(self.get_starttag_text() or tag)


@pytest.mark.parametrize("page", [*WITH_TEXTS, f"{KB}/search?q=%3Cscript%3E&absent=%22%3E%3Cb%3E"])
@pytest.mark.parametrize("headers", [{}, PARTIAL], ids=["page", "part"])
async def test_nothing_that_users_write_becomes_markup(
    admin: httpx.AsyncClient, api: FakeApi, page: str, headers: dict[str, str]
) -> None:
    api.replace_texts(lambda text: text + HOSTILE, names=TEXTS)
    api.replace_texts(lambda text: text + HOSTILE, names=operator_pages.TEXTS, calls=operator_pages.MODELS)
    api.answers[f"GET /knowledge-bases/{KB_ID}/documents/{DOCUMENT_ID}/explain"]["reason"] += HOSTILE
    api.answers[f"GET /knowledge-bases/{KB_ID}/tool"]["type"] = "function"
    shown = await admin.get(page, headers=headers)
    assert shown.status_code == 200
    assert "alert(1)" in shown.text
    assert "7 * 7" in shown.text, "templates are not rendered twice"
    assert FoundMarkup(shown.text).found == []


@pytest.mark.parametrize("page", [page for page in PAGES if "?q=" not in page and page not in WITHOUT_CALLS])
async def test_a_refusal_is_shown_in_the_words_of_the_api(admin: httpx.AsyncClient, api: FakeApi, page: str) -> None:
    api.refuse_all(404, "not-found")
    shown = await admin.get(page)
    assert shown.status_code == 404
    assert "Detail of not-found." in shown.text
    assert "r-1" in shown.text


async def test_a_busy_api_says_when_to_try_again_and_one_that_is_gone_is_a_page_too(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    api.refuse_all(429, "rate-limited")
    busy = await reader.get(f"{ORG}/knowledge-bases")
    assert (busy.status_code, "Try again in 3 s" in busy.text) == (429, True)
    api.problems.clear()
    api.is_reachable = False
    gone = await reader.get(f"{ORG}/knowledge-bases", headers=PARTIAL)
    assert (gone.status_code, "be reached" in gone.text, "<html" in gone.text) == (503, True, False)


async def test_lists_have_a_first_an_empty_and_a_filtered_state(reader: httpx.AsyncClient, api: FakeApi) -> None:
    api.answers["GET /knowledge-bases"] = {"knowledge_bases": [], "total_count": 0}
    assert "First steps" in (await reader.get(f"{ORG}/knowledge-bases")).text
    assert "Show all" in (await reader.get(f"{ORG}/knowledge-bases?q=x")).text
    documents = f"GET /knowledge-bases/{KB_ID}/documents"
    api.answers[documents] |= {"documents": [], "total_count": 0}
    assert "yet. Upload one above" in (await reader.get(f"{KB}/documents")).text
    assert "Show all" in (await reader.get(f"{KB}/documents?status=failed")).text
    api.answers[f"POST /knowledge-bases/{KB_ID}/search"] |= {"results": [], "total_count": 0}
    assert "Nothing was found" in (await reader.get(f"{KB}/search?q=x")).text


async def test_a_document_that_is_being_indexed_says_how_far_it_is(reader: httpx.AsyncClient, api: FakeApi) -> None:
    [listed] = api.answers[f"GET /knowledge-bases/{KB_ID}/documents"]["documents"]
    assert "<progress" not in (await reader.get(f"{KB}/documents")).text
    listed |= {"status": "running", "embedding": {"chunk_count": 600, "embedded_count": 240}}
    page = (await reader.get(f"{KB}/documents")).text
    assert '<progress max="600" value="240"' in page
    assert "240 of 600 passages" in page


async def test_a_page_asks_again_only_while_something_changes_by_itself(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    api.answers[f"GET /knowledge-bases/{KB_ID}/jobs"]["jobs"] = []
    stats = api.answers[f"GET /knowledge-bases/{KB_ID}/stats"]
    stats["states"] |= {"pending": 0, "running": 0}
    assert 'id="poll"' not in (await reader.get(KB)).text
    assert 'id="poll"' not in (await reader.get(f"{KB}/documents")).text
    kb = api.answers[f"GET /knowledge-bases/{KB_ID}"]
    kb["status"] = "indexing"
    assert 'id="poll"' in (await reader.get(KB)).text
    assert 'id="poll"' in (await reader.get(f"{KB}/documents")).text
    kb["paused_at"] = "2026-01-31T12:00:00Z"
    stats["states"]["pending"] = 3
    assert 'id="poll"' not in (await reader.get(KB)).text


async def test_what_a_key_may_not_do_is_disabled_with_the_reason(stranger: httpx.AsyncClient, api: FakeApi) -> None:
    api.answers["GET /v0/whoami"]["scopes"] = ["read"]
    await stranger.post("/console/sign-in", data={"api_key": "kb_0123456789ab_secret"})
    page = (await stranger.get(KB)).text
    assert page.count('disabled title="Your API key lacks the scope write."') >= 2
    api.refuse_all(403, "missing-scope")
    assert (await stranger.post(f"{KB}/pause")).status_code == 403


async def test_a_form_that_is_refused_keeps_what_was_typed(reader: httpx.AsyncClient, api: FakeApi) -> None:
    fields = [{"field": "chunk_size", "message": "must be larger"}]
    api.refuse("POST /knowledge-bases", 422, "validation-error", fields=fields)
    typed = {"name": "My <b>", "description": "About", "new_tags": "one, two", "chunk_size": "60"}
    shown = await reader.post(f"{ORG}/knowledge-bases", data=typed)
    assert shown.status_code == 422
    assert 'value="My &lt;b&gt;"' in shown.text
    assert "must be larger" in shown.text
    assert 'value="60" min="50" max="2000" placeholder="default" aria-invalid="true"' in shown.text
    unsent = await reader.post(f"{ORG}/knowledge-bases", data={**typed, "chunk_size": "many"})
    assert (unsent.status_code, "whole number" in unsent.text) == (422, True)


async def test_a_preview_shows_chunks_and_what_they_repeat(reader: httpx.AsyncClient, api: FakeApi) -> None:
    about = {"token_count": 2, "heading_path": [], "page_start": None, "page_end": None, "chunk_type": "text"}
    chunks = [
        {"chunk_index": 0, "content": "One two.", "start": 0, "end": 8, "context": "", **about},
        {
            "chunk_index": 1,
            "content": "Three.",
            "start": 9,
            "end": 15,
            "context": "two.",
            **about,
            "heading_path": ["A"],
        },
    ]
    cost = {"embedding_count": 2, "cached_count": 0, "spus": 2, "usd": None, "is_exact": True, "is_truncated": False}
    sizes = {"chunk_count": 2, "min_tokens": 1, "mean_tokens": 1.5, "max_tokens": 2}
    api.answers["POST /knowledge-bases/preview"]["text"] = {"chunks": chunks, **cost, **sizes}
    form = {"name": "x", "sample": "One two. Three.", "new_tags": "not-yet"}
    part = (await reader.post(f"{ORG}/knowledge-bases/preview", data=form, headers=PARTIAL)).text
    assert '<mark class="c0" title="passage 0, 2 tokens">One </mark>' in part
    both = "passage 0, 2 tokens; passage 1, 2 tokens, repeats 4 characters of the one before, A"
    assert f'<mark class="c1 overlap" title="{both}">two.</mark>' in part
    page = await reader.post(f"{ORG}/knowledge-bases/preview", data=form)
    assert (page.status_code, 'value="not-yet"' in page.text, "<mark" in page.text) == (200, True, True)


async def test_a_preview_can_be_of_a_stored_document_or_of_a_file(reader: httpx.AsyncClient, api: FakeApi) -> None:
    form = {"name": "x", "sample_document": DOCUMENT_ID, "sample": "ignored"}
    assert (await reader.post(f"{ORG}/knowledge-bases/preview", data=form, headers=PARTIAL)).status_code == 200
    sent = api.bodies["POST /knowledge-bases/preview"]
    assert (sent["document_id"], sent.get("text")) == (DOCUMENT_ID, None)
    files = {"sample_file": ("note.md", b"# Note\n\nThe key is under the mat.")}
    page = await reader.post(f"{ORG}/knowledge-bases/preview/uploads", data=form, files=files)
    assert (page.status_code, 'value="x"' in page.text) == (200, True)
    assert "The key is under the mat." in api.bodies["POST /knowledge-bases/preview"]["text"]
    nothing = await reader.post(f"{ORG}/knowledge-bases/preview/uploads", data=form, files={"sample_file": ("", b"")})
    assert (nothing.status_code, "Choose a file first" in nothing.text) == (422, True)


async def test_a_knowledge_base_is_deleted_only_by_its_name(reader: httpx.AsyncClient, api: FakeApi) -> None:
    refused = await reader.post(f"{KB}/delete", data={"name": "Handbok"})
    assert (refused.status_code, f"DELETE /knowledge-bases/{KB_ID}" in api.calls) == (422, False)
    assert (await reader.post(f"{KB}/delete", data={"name": "Handbook"})).status_code == 303
    assert f"DELETE /knowledge-bases/{KB_ID}" in api.calls


@pytest.mark.parametrize("page", PAGES)
async def test_a_filter_that_a_page_does_not_have_is_refused(admin: httpx.AsyncClient, page: str) -> None:
    answer = await admin.get(f"{page}{'&' if '?' in page else '?'}colour=red")
    assert (answer.status_code, "colour" in answer.text, "is no filter of this page" in answer.text) == (
        422,
        True,
        True,
    )


async def test_addresses_that_mean_nothing_are_pages_too(reader: httpx.AsyncClient) -> None:
    for path, status in [
        ("/console/nothing", 404),
        (f"{ORG}/knowledge-bases?page=x", 422),
        (f"{ORG}/knowledge-bases?status=odd", 422),
        (f"{ORG}/knowledge-bases/unknown", 404),
        (f"{KB}/documents/{'%2e%2e'}", 404),
    ]:
        answer = await reader.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8"), path
