"""Chat: what is asked of the API, and what a reader sees of an answer while it is written and afterwards."""

import json
import re
from html.parser import HTMLParser

import httpx
import pytest

from kb_console.chat.answer_markup import render_answer
from tests.console.payloads import PAYLOADS
from tests.unit.console.fake_api import KB_ID, FakeApi
from tests.unit.console.fake_runs import AGENT_ID, CHUNK_ID, PROMPT_ID, RUN_ID, THREAD_ID, events_of_run, stream_of
from tests.unit.console.test_pages import FoundMarkup

CHAT = "/console/orgs/acme/chat"
AS_SCRIPT = {"HX-Request": "true", "HX-Request-Type": "partial"}
QUESTION = {"question": "How many days of leave are there?", "kb": KB_ID, "with": ""}
PASSAGE = f"/console/orgs/acme/knowledge-bases/{KB_ID}/passages/{CHUNK_ID.replace(':', '%3A')}"


class FoundTags(HTMLParser):
    def __init__(self, markup: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.names: set[str] = set()
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.names |= {name for name, _ in attrs}


async def test_an_answer_arrives_in_parts_with_its_searches_and_ends_as_a_reload_shows_it(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    api.problems["POST /runs"] = stream_of(events_of_run(api.answers, "There are **30 days** [1]", ", it seems."))
    answer = await reader.post(CHAT, data=QUESTION, headers=AS_SCRIPT)
    assert answer.headers["content-type"].startswith("text/event-stream")
    messages = answer.text.split("\n\n")
    assert messages[0] == f"event: asked\ndata: {CHAT}/{THREAD_ID}?kb={KB_ID}"
    parts = [part.replace("data: ", "") for part in messages[1:]]
    assert "searching for" in parts[1]
    assert "<q><bdi>days of leave</bdi></q>: 2 passages" in parts[3]
    while_written = next(part for part in parts if "<strong>30 days</strong>" in part)
    assert f'href="{PASSAGE}?document=handbook&amp;run={RUN_ID}"' in while_written, "a chip while it is written"
    assert "Stop" in while_written
    assert "[1] handbook.pdf, p. 3</a>" in while_written, "its source too"
    assert not any(" hx-nonce" in part for part in parts), "it would be the nonce of another page"
    page = (await reader.get(f"{CHAT}/{THREAD_ID}")).text
    article = page[page.index("<article") : page.index("</article>")]
    assert article in parts[-2], "a reload shows the same"
    assert api.bodies["POST /runs"]["thread_id"] == THREAD_ID
    assert api.bodies["POST /threads"] == {"title": QUESTION["question"]}


async def test_an_answer_has_its_sources_its_cost_and_what_was_not_cited(reader: httpx.AsyncClient) -> None:
    page = (await reader.get(f"{CHAT}/{THREAD_ID}")).text
    assert "[1] handbook.pdf, p. 3</a>" in page
    assert "1 passage received and not cited" in page
    assert "gpt-4o-mini · 2 rounds · 1\u202f576 tokens · $0.0003 · 1 SPU · 5 s" in page
    assert 'id="poll"' not in page


async def test_without_a_script_the_page_with_the_answer_follows(reader: httpx.AsyncClient, api: FakeApi) -> None:
    answer = await reader.post(CHAT, data=QUESTION | {"thread_id": THREAD_ID})
    assert answer.status_code == 303
    assert answer.headers["location"] == f"{CHAT}/{THREAD_ID}?kb={KB_ID}#run-{RUN_ID}"
    assert "POST /threads" not in api.calls
    assert api.bodies["POST /runs"]["kb_ids"] == [KB_ID]


@pytest.mark.parametrize(
    ("chosen", "sent"),
    [
        ({"with": f"agent:{AGENT_ID}", "kb": KB_ID, "model": "gpt-4o-mini"}, {"agent_id": AGENT_ID}),
        ({"with": f"prompt:{PROMPT_ID}", "kb": ""}, {"prompt_id": PROMPT_ID, "kb_ids": None}),
        ({"kb": KB_ID, "model": "gpt-4o-mini"}, {"kb_ids": [KB_ID], "model": "gpt-4o-mini"}),
    ],
)
async def test_who_answers_is_in_the_address_and_in_the_run(
    reader: httpx.AsyncClient, api: FakeApi, chosen: dict[str, str], sent: dict[str, object]
) -> None:
    folded = (await reader.get(CHAT, params=chosen)).text
    for name, value in chosen.items():
        assert (f'<input type="hidden" name="{name}" value="{value}" form="ask">' in folded) == (value != "")
    for address in (CHAT, f"{CHAT}/choices"):
        unfolded = (await reader.get(address, params=chosen | ({"choose": "true"} if address == CHAT else {}))).text
        assert 'type="hidden"' not in unfolded
        for value in filter(None, [chosen.get("with"), None if chosen.get("with") else chosen.get("model")]):
            assert f'value="{value}" selected' in unfolded or f'name="model" form="ask" value="{value}"' in unfolded
    await reader.post(CHAT, data=chosen | {"question": "Well?"})
    body = api.bodies["POST /runs"]
    assert {name: body[name] for name in body if name not in {"messages", "thread_id", "document_id"}} == sent


async def test_a_page_says_where_answers_come_from_before_it_is_unfolded(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    api.answers["GET /knowledge-bases"]["knowledge_bases"][0]["name"] = "Leave & travel"
    page = (await reader.get(f"{CHAT}?kb={KB_ID}&kb=gone&model=gpt-4o")).text
    assert '<strong id="chosen">gpt-4o, Leave &amp; travel, gone</strong>' in page
    assert '<strong id="chosen">gone-too</strong>' in (await reader.get(f"{CHAT}?with=gone-too")).text
    about = (await reader.get(f"{CHAT}?document=handbook")).text
    assert '<strong id="chosen">handbook.pdf</strong>' in about, "a document alone is a choice too, by its name"


async def test_a_passage_of_an_answer_names_the_other_documents_that_have_it(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    assert "also in" not in (await reader.get(f"{CHAT}/{THREAD_ID}")).text
    [run] = api.answers[f"GET /threads/{THREAD_ID}"]["runs"]
    copy = {"kb_id": KB_ID, "document_id": "h25", "source": "handbook <2025>.pdf", "chunk_id": "h25:0:0"}
    run["citations"][0] |= {"also_in": [copy]}
    page = (await reader.get(f"{CHAT}/{THREAD_ID}")).text
    assert re.search(r'also in <a href="[^"]*/h25[?]cited=h25[^"]*"><bdi>handbook &lt;2025&gt;.pdf</bdi>', page)


async def test_a_conversation_asks_the_api_only_for_what_it_shows(reader: httpx.AsyncClient, api: FakeApi) -> None:
    shown_always = {"GET /operations/counts", "GET /threads", f"GET /threads/{THREAD_ID}"}
    for agent_id, prompt_id, names in [
        (None, None, {"GET /knowledge-bases"}),
        (AGENT_ID, None, {f"GET /agents/{AGENT_ID}"}),
        (None, PROMPT_ID, {f"GET /prompts/{PROMPT_ID}"}),
    ]:
        last = {"agent_id": agent_id, "prompt_id": prompt_id, "kb_ids": [KB_ID]}
        api.answers[f"GET /threads/{THREAD_ID}"]["runs"][0] |= last
        api.calls.clear()
        assert "1 passage received and not cited" in (await reader.get(f"{CHAT}/{THREAD_ID}")).text
        assert set(api.calls) == shown_always | names
        assert len(api.calls) == 4
    api.calls.clear()
    await reader.get(f"{CHAT}/choices", headers=AS_SCRIPT)
    assert set(api.calls) == {"GET /agents", "GET /prompts", "GET /knowledge-bases", "GET /chat-models"}


async def test_a_choice_that_is_not_listed_is_kept(reader: httpx.AsyncClient, api: FakeApi) -> None:
    api.answers["GET /agents"]["agents"] = []
    chosen = {"with": f"agent:{AGENT_ID}", "model": "gpt-5", "kb": "65f1c2a3b4d5e6f708192aff"}
    fields = (await reader.get(f"{CHAT}/choices", params=chosen)).text
    assert f'<option value="{chosen["with"]}" selected>{chosen["with"]}, not in this list' in fields
    # Also one of a server of one's own, whose models are in no list.
    assert f'name="model" form="ask" value="{chosen["model"]}"' in fields
    assert f'value="{chosen["kb"]}" checked>' in fields


async def test_a_key_that_may_not_see_agents_and_documents_gets_a_chat_without_them(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    for call in ("GET /agents", "GET /prompts", f"GET /agents/{AGENT_ID}", "GET /documents"):
        api.refuse(call, 403, "knowledge-base-not-allowed")
    page = (await reader.get(f"{CHAT}?with=agent:{AGENT_ID}")).text
    assert f'<strong id="chosen">agent:{AGENT_ID}</strong>' in page
    choices = (await reader.get(f"{CHAT}/choices")).text
    assert KB_ID in choices
    assert "optgroup" not in choices
    documents = await reader.get("/console/orgs/acme/document-choices")
    assert (documents.status_code, documents.text.strip()) == (200, "")


async def test_a_field_for_a_document_suggests_those_of_its_knowledge_base_or_organization(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    for query, call in [("", "GET /documents"), (f"?kb={KB_ID}", f"GET /knowledge-bases/{KB_ID}/documents")]:
        document = api.answers[call]["documents"][0] | {"document_id": "leave", "document_name": "Leave & travel"}
        api.answers[call]["documents"] = [document]
        suggested = (await reader.get(f"/console/orgs/acme/document-choices{query}")).text
        assert '<option value="Leave &amp; travel"></option>' in suggested
        api.answers[call]["documents"] = [document, document | {"document_id": "leave-2"}]
        suggested = (await reader.get(f"/console/orgs/acme/document-choices{query}")).text
        assert '<option value="leave-2">Leave &amp; travel</option>' in suggested, "a name of two chooses none of them"


async def test_a_document_is_chosen_by_its_name_or_its_id(reader: httpx.AsyncClient, api: FakeApi) -> None:
    [document] = api.answers["GET /documents"]["documents"]
    document |= {"document_id": "leave", "document_name": "Leave & travel.pdf"}
    for typed in ("leave & travel.PDF", "leave"):
        await reader.post(CHAT, data=QUESTION | {"document": typed})
        assert api.bodies["POST /runs"]["document_id"] == "leave"
    await reader.post(CHAT, data=QUESTION | {"document": "unknown.pdf"})
    assert api.bodies["POST /runs"]["document_id"] == "unknown.pdf", "the API says that there is none"
    page = (await reader.get(f"{CHAT}?document=leave")).text
    assert '<strong id="chosen">Leave &amp; travel.pdf</strong>' in page
    api.answers["GET /documents"]["documents"].append(document | {"document_id": "leave-2"})
    refused = await reader.post(CHAT, data=QUESTION | {"document": "Leave & travel.pdf"})
    assert (refused.status_code, "Type the id of one: leave, leave-2" in refused.text) == (422, True)


async def test_without_a_choice_all_knowledge_bases_are_searched(reader: httpx.AsyncClient, api: FakeApi) -> None:
    assert '<strong id="chosen">all knowledge bases</strong>' in (await reader.get(CHAT)).text
    answer = await reader.post(CHAT, data={"question": "Where?"})
    assert (answer.status_code, api.bodies["POST /runs"]["kb_ids"]) == (303, [KB_ID])
    api.answers["GET /knowledge-bases"]["total_count"] = 21
    refused = await reader.post(CHAT, data={"question": "Where?"})
    assert (refused.status_code, "an answer can search 20: choose some" in refused.text) == (422, True)


async def test_a_question_before_there_is_a_knowledge_base_says_what_to_do(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    api.answers["GET /knowledge-bases"] |= {"knowledge_bases": [], "total_count": 0}
    nowhere = await reader.post(CHAT, data={"question": "Where <b>?"})
    assert (nowhere.status_code, "There is no knowledge base yet" in nowhere.text) == (422, True)
    assert "Where &lt;b&gt;?</textarea>" in nowhere.text


async def test_a_question_that_is_refused_is_kept_and_says_why(reader: httpx.AsyncClient, api: FakeApi) -> None:
    api.refuse("POST /runs", 422, "model-not-allowed")
    refused = await reader.post(CHAT, data=QUESTION)
    assert (refused.status_code, QUESTION["question"] in refused.text) == (422, True)
    assert "Detail of model-not-allowed." in refused.text
    in_a_stream = await reader.post(CHAT, data=QUESTION, headers=AS_SCRIPT)
    assert "Detail of model-not-allowed." in in_a_stream.text
    assert "event: asked" not in in_a_stream.text, "so the form keeps the question"


async def test_an_answer_that_broke_off_or_failed_says_so_and_can_be_asked_again(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    api.problems["POST /runs"] = stream_of(events_of_run(api.answers, "There are")[:5])
    broken = (await reader.post(CHAT, data=QUESTION, headers=AS_SCRIPT)).text
    assert "Lost" in broken
    assert "Ask again" in broken
    run = api.answers[f"GET /runs/{RUN_ID}"]
    error = {
        "type": "invalid-answer",
        "detail": "Not as the schema says.",
        "answer": '{"a": 1}',
        "violations": ["$.a: <b>"],
    }
    run |= {"status": "failed", "answer": None, "citations": [], "error": error}
    page = (await reader.get(f"{CHAT}/{THREAD_ID}")).text
    assert "Not as the schema says." in page
    assert "<li><bdi>$.a: &lt;b&gt;</bdi></li>" in page
    assert '<mark class="violation"><bdi>1</bdi></mark><span class="problem note"> ← <bdi>&lt;b&gt;</bdi>' in page
    assert "Ask again" in page
    run |= {"status": "completed", "answer": "By heart.", "error": None}
    assert "cites no passage" in (await reader.get(f"{CHAT}/{THREAD_ID}")).text
    run |= {"status": "running", "answer": None}
    assert 'id="poll"' in (await reader.get(f"{CHAT}/{THREAD_ID}")).text


async def test_what_a_model_writes_is_text(reader: httpx.AsyncClient, api: FakeApi) -> None:
    hostile = (
        '<script>alert(1)</script> <b hx-get="/x" onclick="y"> ![i](http://evil.example/i) [l](javascript:alert(1)) '
        "<http://evil.example> [1]\n\n[a]: http://evil.example\n\n| <b> |\n|---|\n| [a] |\n\n```<b>\n<b>\n```"
        "\r<b>\u2028<b>"
    )
    run = api.answers[f"GET /runs/{RUN_ID}"]
    run["answer"] = hostile
    run["question"] = [{"role": "user", "content": hostile}]
    run["tool_calls"][0] |= {"arguments": json.dumps({"query": hostile}), "problem": hostile}
    run["citations"][0] |= {"source": hostile}
    api.problems["POST /runs"] = stream_of(events_of_run(api.answers, *hostile))
    for shown in (
        await reader.get(f"{CHAT}/{THREAD_ID}"),
        await reader.post(CHAT, data=QUESTION | {"question": hostile}, headers=AS_SCRIPT),
    ):
        text = shown.text.replace("data: ", "")
        assert FoundMarkup(text).found == []
        assert "<img" not in text
        assert 'href="http' not in text
        assert 'href="javascript' not in text


async def test_a_passage_opens_with_its_neighbours_and_as_it_was_cited_when_it_is_gone(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    address = f"{PASSAGE}?document=handbook&run={RUN_ID}"
    for headers in ({}, AS_SCRIPT):
        page = await reader.get(address, headers=headers)
        assert (page.status_code, 'class="cited" tabindex="-1"' in page.text) == (200, True)
        assert ("<html" in page.text) == (not headers)
    for status, slug in [(410, "passage-replaced"), (404, "not-found")]:
        api.refuse(f"GET /knowledge-bases/{KB_ID}/chunks/{CHUNK_ID}", status, slug)
        gone = await reader.get(address)
        assert (gone.status_code, "This is the passage as it was cited." in gone.text) == (200, True)
        assert "Employees have 30 days of leave a year." in gone.text
    without_a_run = await reader.get(f"{PASSAGE}?document=handbook")
    assert without_a_run.status_code == 404


async def test_a_run_is_stopped_judged_and_a_conversation_deleted(reader: httpx.AsyncClient, api: FakeApi) -> None:
    run, here = f"/console/orgs/acme/runs/{RUN_ID}", {"then": f"{CHAT}/{THREAD_ID}"}
    assert (await reader.post(f"{run}/stop", data=here)).headers["location"] == here["then"]
    api.refuse(f"POST /runs/{RUN_ID}/cancel", 409, "run-ended")
    assert (await reader.post(f"{run}/stop", data=here)).status_code == 303, "it ended meanwhile"
    judged = await reader.post(f"{run}/feedback", data=here | {"rating": "down", "comment": "Old."})
    assert judged.headers["location"] == f"{CHAT}/{THREAD_ID}#run-{RUN_ID}"
    assert api.bodies[f"PUT /runs/{RUN_ID}/feedback"] == {"rating": "down", "comment": "Old."}
    elsewhere = await reader.post(f"{run}/stop", data={"then": "https://evil.example/console/"})
    assert elsewhere.headers["location"] == "/console/", "a form can't lead to another site"
    assert "1 question with its answer" in (await reader.get(f"{CHAT}/{THREAD_ID}/delete")).text
    assert (await reader.post(f"{CHAT}/{THREAD_ID}/delete")).headers["location"] == CHAT
    assert f"DELETE /threads/{THREAD_ID}" in api.calls


async def test_older_conversations_are_a_page_away_and_the_first_one_is_explained(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    api.answers["GET /threads"]["total_count"] = 45
    assert f'href="{CHAT}/{THREAD_ID}?older=1"' in (await reader.get(f"{CHAT}/{THREAD_ID}")).text
    page = (await reader.get(f"{CHAT}?older=2")).text
    assert api.queries["GET /threads"]["skip"] == "40"
    assert (f'href="{CHAT}?older=1" rel="prev"' in page, 'rel="next"' in page) == (True, False)
    api.answers["GET /threads"] |= {"threads": [], "total_count": 0}
    assert "No conversation yet" in (await reader.get(CHAT)).text


async def test_a_question_is_kept_if_its_conversation_can_not_begin(reader: httpx.AsyncClient, api: FakeApi) -> None:
    api.refuse("POST /threads", 429, "rate-limited")
    refused = await reader.post(CHAT, data=QUESTION)
    assert (refused.status_code, f"{QUESTION['question']}</textarea>" in refused.text) == (429, True)


async def test_a_key_that_may_not_search_or_use_agents_still_reads(stranger: httpx.AsyncClient, api: FakeApi) -> None:
    api.answers["GET /v0/whoami"]["scopes"] = ["read"]
    await stranger.post("/console/sign-in", data={"api_key": "kb_0123456789ab_secret"})
    api.refuse("GET /agents", 403, "missing-scope")
    api.refuse("GET /prompts", 403, "missing-scope")
    page = await stranger.get(f"{CHAT}/{THREAD_ID}")
    assert page.status_code == 200
    assert 'disabled title="Your API key lacks the scope search.">Ask</button>' in page.text


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_payload_of_the_browser_tests_becomes_markup_in_an_answer(payload: str) -> None:
    for text in (payload, f"# {payload}", f"| {payload} |\n|---|\n| {payload} |", f"```{payload}\n{payload}\n```"):
        rendered = render_answer(text, {}, lambda _: "/")
        assert FoundTags(rendered).found <= {"p", "pre", "code", "div", "table", "thead", "tbody", "tr", "th", "td"}
        assert FoundTags(rendered).names <= {"class", "tabindex", "role", "aria-label"}


async def test_an_answer_of_no_language_model_says_so_and_where_to_set_one(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    assert "No language model is set" not in (await reader.get(f"{CHAT}/{THREAD_ID}")).text
    api.answers[f"GET /runs/{RUN_ID}"]["model"] = "demo-extractive"
    page = (await reader.get(f"{CHAT}/{THREAD_ID}")).text
    assert "No language model is set, so these are sentences of the documents, quoted." in page
    assert '<a href="/console/orgs/acme/settings">Settings</a>' in page
