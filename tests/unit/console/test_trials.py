"""Trials beside the forms of agents and prompts: what is asked, where the answer appears, and what is kept."""

import httpx
import pytest

from tests.unit.console.fake_api import FakeApi
from tests.unit.console.fake_runs import AGENT_ID, PROMPT_ID, RUN_ID, THREAD_ID, events_of_run, stream_of

AGENT = f"/console/orgs/acme/agents/{AGENT_ID}"
PROMPT = f"/console/orgs/acme/prompts/{PROMPT_ID}"
AS_SCRIPT = {"HX-Request": "true", "HX-Request-Type": "partial"}
QUESTION = {"question": "How many days of leave are there?"}


async def test_an_agent_is_asked_beside_its_form_in_a_conversation_that_goes_on(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    api.problems["POST /runs"] = stream_of(events_of_run(api.answers, "There are **30 days** [1]"))
    answer = await reader.post(f"{AGENT}/try", data=QUESTION, headers=AS_SCRIPT)
    messages = answer.text.replace("data: ", "").split("\n\n")
    assert messages[0] == f"event: asked\n{AGENT}?thread={THREAD_ID}"
    assert f'name="thread_id" value="{THREAD_ID}"' in messages[1], "so that the next question goes on"
    assert "#threads" not in answer.text, "this page lists no conversations"
    assert "search_handbook" in messages[3], "the call of the tool"
    body = api.bodies["POST /runs"]
    assert (body["agent_id"], body["thread_id"]) == (AGENT_ID, THREAD_ID)
    page = (await reader.get(f"{AGENT}?thread={THREAD_ID}")).text
    article = page[page.index("<article") : page.index("</article>")]
    assert article in messages[-2], "a reload shows the same"
    await reader.post(f"{AGENT}/try", data=QUESTION | {"thread_id": THREAD_ID}, headers=AS_SCRIPT)
    assert api.calls.count("POST /threads") == 1


async def test_a_prompt_runs_beside_its_form_about_a_document_and_without_a_question(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    events = events_of_run(api.answers, "30")
    api.problems["POST /runs"] = stream_of(events)
    answer = await reader.post(f"{PROMPT}/try", data={"question": "", "document": " handbook "}, headers=AS_SCRIPT)
    messages = answer.text.replace("data: ", "").split("\n\n")
    assert messages[0] == f"event: asked\n{PROMPT}?run={RUN_ID}"
    assert 'hx-target="#turns" hx-swap="innerHTML"' in messages[1], "in place of what was tried before"
    body = api.bodies["POST /runs"]
    assert (body["prompt_id"], body["document_id"], body["messages"]) == (PROMPT_ID, "handbook", [])
    assert body["thread_id"] is None, "what was tried before is not part of it"
    api.answers[f"GET /runs/{RUN_ID}"]["document_id"] = "handbook"
    page = (await reader.get(f"{PROMPT}?run={RUN_ID}")).text
    assert page[page.index("<article") : page.index("</article>")].replace("handbook", "") in messages[-2].replace(
        "handbook", ""
    )
    assert f">{QUESTION['question']}</textarea>" in page, "to be asked again after a change"
    assert 'name="document" value="handbook.pdf"' in page, "by its name"


@pytest.mark.parametrize(
    ("tried", "shown"), [(AGENT, f"{AGENT}?thread={THREAD_ID}"), (PROMPT, f"{PROMPT}?run={RUN_ID}")]
)
async def test_a_trial_works_without_a_script_and_stays_when_the_form_is_saved(
    reader: httpx.AsyncClient, api: FakeApi, tried: str, shown: str
) -> None:
    answer = await reader.post(f"{tried}/try", data=QUESTION)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{shown}#run-{RUN_ID}")
    page = (await reader.get(shown)).text
    assert f'<form method="post" action="{shown}" data-tried>' in page
    assert 'id="unsaved" hidden' in page
    saved = await reader.post(shown, data={"name": "New", "content": "Say."})
    assert saved.headers["location"] == f"{shown}&done=saved"
    for call in (f"PUT /agents/{AGENT_ID}", f"PUT /prompts/{PROMPT_ID}"):
        api.refuse(call, 422, "validation-error")
    refused = (await reader.post(shown, data={"name": "New", "content": "Say."})).text
    assert 'id="unsaved"> ' not in refused
    assert 'id="unsaved">The form has changes' in refused
    assert f'id="run-{RUN_ID}"' in refused


@pytest.mark.parametrize("tried", [AGENT, PROMPT])
async def test_a_trial_that_is_refused_keeps_the_question_and_the_form_says_nothing(
    reader: httpx.AsyncClient, api: FakeApi, tried: str
) -> None:
    api.refuse("POST /runs", 429, "rate-limited")
    refused = await reader.post(f"{tried}/try", data={"question": "Why <b>?"})
    assert (refused.status_code, "Why &lt;b&gt;?</textarea>" in refused.text) == (429, True)
    assert refused.text.count("Detail of rate-limited.") == 1
    assert 'id="unsaved" hidden' in refused.text
    part = (await reader.post(f"{tried}/try", data={"question": "Why <b>?"}, headers=AS_SCRIPT)).text
    assert "Detail of rate-limited." in part
    assert "event: asked" not in part


async def test_an_agent_is_not_asked_nothing(reader: httpx.AsyncClient, api: FakeApi) -> None:
    refused = await reader.post(f"{AGENT}/try", data={"question": " "})
    assert (refused.status_code, "Type a question first." in refused.text) == (422, True)
    assert "POST /runs" not in api.calls


@pytest.mark.parametrize("tried", [AGENT, PROMPT])
async def test_a_key_that_may_not_search_sees_why_it_can_try_nothing(
    stranger: httpx.AsyncClient, api: FakeApi, tried: str
) -> None:
    api.answers["GET /v0/whoami"]["scopes"] = ["read", "write"]
    await stranger.post("/console/sign-in", data={"api_key": "kb_0123456789ab_secret"})
    page = (await stranger.get(tried)).text
    trial = page[page.index('id="try"') :]
    assert 'disabled title="Your API key lacks the scope search."' in trial
