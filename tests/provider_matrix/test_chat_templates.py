"""Conversations of runs, rendered with the rules of published chat templates: no model is needed."""

import json
from typing import Any

import jinja2
import pytest

from kb_search.runs import loop
from kb_search.runs.loop import CallTools, RunState
from kb_shared.chat.completion import Completion, Message, ToolCall
from kb_shared.chat.outgoing_messages import outgoing_messages
from kb_shared.providers.provider_errors import Failure
from kb_shared.providers.refused_options import NULL_CONTENT, ROLES, find_refused
from tests.provider_matrix.chat_templates import TEMPLATES

SYSTEM: Message = {"role": "system", "content": "Be short."}
QUESTION: Message = {"role": "user", "content": "How long does it take?"}
CONTEXT: Message = {"role": "user", "content": "Passages: 95 minutes."}
ANSWER: Message = {"role": "assistant", "content": "95 minutes."}


def said(text: str | None, *calls: ToolCall) -> Completion:
    returned = {} if text else {"content": text}
    return Completion(text, calls, 1, 1, None, tokens_are_counted=True, is_cut=False, returned=returned)


def after_calls(*calls: ToolCall, text: str | None = None) -> list[Message]:
    state = RunState([SYSTEM, QUESTION])
    state, action = loop.process_completion(state, said(text, *calls), with_tools=True)
    assert isinstance(action, CallTools)
    results = [(call, "95 minutes") for call in action.calls]
    return list(loop.add_tool_results(state, results).messages)


def after_an_empty_answer() -> list[Message]:
    return list(loop.process_completion(RunState([SYSTEM, QUESTION]), said(""), with_tools=False)[0].messages)


CONVERSATIONS: dict[str, list[Message]] = {
    "a question": [SYSTEM, QUESTION],
    "a question with passages in a message of their own": [SYSTEM, CONTEXT, QUESTION],
    "a question about a document, with passages": [SYSTEM, CONTEXT, CONTEXT, QUESTION],
    "a question in a thread": [SYSTEM, QUESTION, ANSWER, QUESTION],
    "a thread whose last run had no answer": [SYSTEM, QUESTION, {"role": "assistant", "content": ""}, QUESTION],
    "a repaired answer": [SYSTEM, QUESTION, ANSWER, QUESTION],
    "an empty answer that is asked for again": after_an_empty_answer(),
    "a conversation that the assistant begins": [SYSTEM, ANSWER, QUESTION],
    "a call": after_calls(ToolCall("", "find_rates", '{"query": "ferry"}')),
    "a call beside an empty text": after_calls(ToolCall("", "find_rates", '{"query": "ferry"}'), text=""),
    "a call beside a text": after_calls(ToolCall("", "find_rates", '{"query": "ferry"}'), text="I look."),
    "a call whose arguments are no JSON": after_calls(ToolCall("", "find_rates", "{ferry")),
    "a call without arguments": after_calls(ToolCall("", "find_rates", "")),
    "two calls": after_calls(ToolCall("", "find_rates", "{}"), ToolCall("", "find_rooms", "{}")),
}


def render(template: str, messages: list[dict[str, Any]]) -> str:
    def fail(words: str) -> None:
        raise jinja2.TemplateError(words)

    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = fail
    environment.filters["from_json"] = json.loads
    return environment.from_string(template).render(messages=messages)


@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("model", TEMPLATES)
def test_a_conversation_is_rendered_at_once_or_after_what_the_template_refuses_is_left_out(
    model: str, conversation: str
) -> None:
    messages = CONVERSATIONS[conversation]
    left_out: frozenset[str] = frozenset()
    for _ in range(3):
        try:
            render(TEMPLATES[model], outgoing_messages(messages, without=left_out))
        except (jinja2.TemplateError, TypeError) as refused:
            # As llama.cpp and vLLM answer it.
            words = f"chat template: content is null or {refused}" if "None" in str(refused) else f"{refused}"
            found = find_refused(Failure(status=400), words, sent={ROLES, NULL_CONTENT} - left_out, may_guess=False)
            if not found:
                pytest.fail(f"nothing is tried after {refused}")
            left_out |= found
        else:
            return
    pytest.fail(f"refused without {sorted(left_out)}")


@pytest.mark.parametrize("model", [each for each in TEMPLATES if each not in ("Gemma 2", "Mistral 7B 0.1")])
@pytest.mark.parametrize(
    "conversation", [each for each in CONVERSATIONS if "call" not in each and "assistant" not in each]
)
def test_what_every_template_takes_is_sent_at_first(model: str, conversation: str) -> None:
    rendered = render(TEMPLATES[model], outgoing_messages(CONVERSATIONS[conversation]))
    if model != "DeepSeek R1":
        assert str(QUESTION["content"]) in rendered
