"""What a run does next, whatever the model says."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_search.runs import loop
from kb_search.runs.loop import (
    MAX_CALLS_AT_ONCE,
    AskModel,
    CallTools,
    ModelAnswered,
    Repair,
    RunLimits,
    RunState,
    StopRun,
    UnusableAnswer,
)
from kb_shared.chat.completion import Completion, ToolCall

BUDGET = RunLimits(max_iterations=3, max_tokens=1_000, max_spus=10, max_seconds=60)
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
START = RunState([{"role": "user", "content": "?"}], tools=["find"])


def said(text: str | None = None, *calls: ToolCall, cost_usd: float | None = 0.1, is_cut: bool = False) -> Completion:
    return Completion(text, calls, 10, 5, cost_usd, tokens_are_counted=True, is_cut=is_cut)


def decide(state: RunState, **known: Any) -> AskModel | StopRun:
    return loop.decide_request(state, BUDGET, **{"elapsed_s": 0.0, "next_prompt_tokens": 1, **known})


def test_the_last_question_comes_without_tools() -> None:
    asked = [decide(replace(START, iterations=number)) for number in range(5)]
    assert (
        asked
        == [AskModel(with_tools=True, max_completion_tokens=999)] * 3
        + [AskModel(with_tools=False, max_completion_tokens=999)] * 2
    )


def test_an_answer_may_be_as_long_as_the_budget_has_left() -> None:
    state, _ = loop.process_completion(START, said("x"), with_tools=False)
    assert decide(state, next_prompt_tokens=984) == AskModel(with_tools=True, max_completion_tokens=1)
    assert decide(state, next_prompt_tokens=985) == StopRun("max_tokens", tokens_before_answer=1_000)


@pytest.mark.parametrize("schema", [None, SCHEMA])
def test_an_answer_that_was_cut_off_is_sent_back_once(schema: dict[str, Any] | None) -> None:
    start = replace(START, schema=schema)
    state, action = loop.process_completion(start, said('{"a": 1}', is_cut=True), with_tools=True)
    assert isinstance(action, Repair)
    assert "fewer words" in str(state.messages[-1]["content"])
    assert loop.process_completion(state, said('{"a": 1}'), with_tools=False)[1] == ModelAnswered('{"a": 1}')
    _, action = loop.process_completion(state, said('{"a": 1}', is_cut=True), with_tools=False)
    assert isinstance(action, UnusableAnswer)
    assert "cut off" in action.violations[0]


@pytest.mark.parametrize(
    ("known", "stop"),
    [
        ({"elapsed_s": 60.0}, StopRun("max_seconds")),
        ({"next_prompt_tokens": 1_001}, StopRun("max_tokens", tokens_before_answer=1_001)),
    ],
)
def test_no_question_is_asked_that_its_budget_has_no_room_for(known: dict[str, float], stop: StopRun) -> None:
    assert decide(START, **known) == stop


def test_tokens_of_all_questions_count() -> None:
    state = START
    for _ in range(60):
        state, _ = loop.process_completion(state, said("x"), with_tools=False)
    assert state.tokens == 900
    assert decide(state, next_prompt_tokens=101) == StopRun("max_tokens", tokens_before_answer=1_001)


def test_an_answer_is_the_end() -> None:
    state, action = loop.process_completion(START, said("so"), with_tools=True)
    assert action == ModelAnswered("so")
    assert state.messages[-1] == {"role": "assistant", "content": "so"}


@pytest.mark.parametrize("text", [None, "", "  \n"])
def test_an_empty_answer_is_sent_back_once(text: str | None) -> None:
    state, action = loop.process_completion(START, said(text), with_tools=True)
    assert isinstance(action, Repair)
    assert decide(state) == AskModel(with_tools=False, max_completion_tokens=984)
    assert loop.process_completion(state, said("so"), with_tools=False)[1] == ModelAnswered("so")
    assert isinstance(loop.process_completion(state, said(text), with_tools=False)[1], UnusableAnswer)


def test_an_answer_against_the_schema_is_sent_back_with_what_is_wrong() -> None:
    start = replace(START, schema=SCHEMA)
    state, action = loop.process_completion(start, said('{"a": "x"}'), with_tools=True)
    assert isinstance(action, Repair)
    assert "$.a" in str(state.messages[-1]["content"])
    assert loop.process_completion(state, said('{"a": 1}'), with_tools=False)[1] == ModelAnswered('{"a": 1}')
    _, action = loop.process_completion(state, said("no JSON"), with_tools=False)
    assert action == UnusableAnswer("no JSON", ["the answer is not JSON"])


def test_calls_that_were_not_offered_are_not_made() -> None:
    _, action = loop.process_completion(START, said(None, ToolCall("1", "f", "{}")), with_tools=False)
    assert isinstance(action, Repair)


def test_the_cost_is_unknown_once_a_part_of_it_is() -> None:
    state, _ = loop.process_completion(START, said("x", cost_usd=0.25), with_tools=True)
    assert state.cost_usd == 0.25
    state, _ = loop.process_completion(state, said("x", cost_usd=None), with_tools=True)
    state, _ = loop.process_completion(state, said("x", cost_usd=0.25), with_tools=True)
    assert state.cost_usd is None


CALLS = st.lists(
    st.builds(ToolCall, st.sampled_from(["", "1", "2", "call00001"]), st.text(max_size=3), st.text(max_size=5)),
    min_size=1,
    max_size=20,
)


@given(st.lists(CALLS, min_size=1, max_size=4))
def test_w14_every_call_has_an_id_of_its_own_and_exactly_one_result(rounds: list[list[ToolCall]]) -> None:
    state = START
    for calls in rounds:
        state, action = loop.process_completion(state, said(None, *calls), with_tools=True)
        assert isinstance(action, CallTools)
        assert len(action.calls) <= MAX_CALLS_AT_ONCE
        both = [*action.calls, *action.too_many]
        assert [(each.name, each.arguments) for each in both] == [(each.name, each.arguments) for each in calls]
        state = loop.add_tool_results(state, [(call, "result") for call in both])
    asked = [call["id"] for message in state.messages for call in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in state.messages if message["role"] == "tool"]
    assert asked == answered
    assert len(set(asked)) == len(asked)
    assert "" not in asked
    json.dumps(list(map(dict, state.messages)))


COMPLETIONS = st.builds(
    lambda text, calls: said(text, *calls), st.none() | st.sampled_from(["", "so", "{}"]), st.just([]) | CALLS
)


@given(st.lists(COMPLETIONS, min_size=1), st.booleans())
def test_w14_a_run_ends_whatever_the_model_says(says: list[Completion], with_schema: bool) -> None:
    state = replace(START, schema=SCHEMA if with_schema else None)
    for number in range(BUDGET.max_iterations + 3):
        action = decide(state, next_prompt_tokens=0)
        assert isinstance(action, AskModel)
        state, action_after = loop.process_completion(state, says[number % len(says)], with_tools=action.with_tools)
        if isinstance(action_after, ModelAnswered | UnusableAnswer):
            return
        if isinstance(action_after, CallTools):
            state = loop.add_tool_results(
                state, [(call, "x") for call in [*action_after.calls, *action_after.too_many]]
            )
    raise AssertionError("it went on")


def test_an_answer_has_no_more_tokens_than_its_limit() -> None:
    limits = replace(BUDGET, max_output_tokens=70)
    action = loop.decide_request(START, limits, elapsed_s=0.0, next_prompt_tokens=1)
    assert action == AskModel(with_tools=True, max_completion_tokens=70)
    action = loop.decide_request(START, limits, elapsed_s=0.0, next_prompt_tokens=960)
    assert action == AskModel(with_tools=True, max_completion_tokens=40)


def test_a_run_that_searches_for_its_model_offers_no_tools_and_counts_what_was_used_up() -> None:
    state, _ = loop.process_completion(START, said(None), with_tools=True)
    again = loop.begin_again(state, [{"role": "user", "content": "found, ?"}])
    assert decide(again) == AskModel(with_tools=False, max_completion_tokens=984)
    assert (again.iterations, again.is_repair) == (1, False)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "find", "arguments": {"query": "oars"}}',
        '```json\n{"name": "find", "arguments": {"query": "oars"}\n```',
        '<tool_call>{"name": "find", "arguments": {}}</tool_call>',
        "I look it up: find(query='oars')",
        '[{"function": "functions.find", "parameters": {}}]',
    ],
)
def test_a_call_is_no_answer_and_is_sent_back(text: str) -> None:
    state, action = loop.process_completion(replace(START, may_call=False), said(text), with_tools=False)
    assert isinstance(action, Repair)
    _, action = loop.process_completion(state, said(text), with_tools=False)
    assert isinstance(action, UnusableAnswer)


@pytest.mark.parametrize("text", ["[1]", "[1], [2].", "[S1] [source 2]", "\u00b9 \u00b2", "\u30101\u3011"])
def test_marks_alone_are_sent_back_once_and_are_an_answer_then(text: str) -> None:
    state, action = loop.process_completion(START, said(text), with_tools=False)
    assert isinstance(action, Repair)
    assert loop.process_completion(state, said(text), with_tools=False)[1] == ModelAnswered(text)


@pytest.mark.parametrize("text", ["28", "It is 28 [1].", "You find it in the handbook", 'The field "name" is empty.'])
def test_words_and_figures_are_answers(text: str) -> None:
    assert loop.process_completion(START, said(text), with_tools=True)[1] == ModelAnswered(text)


def test_json_in_one_fence_is_the_answer_without_its_fence() -> None:
    start = replace(START, schema=SCHEMA)
    _, action = loop.process_completion(start, said('Here it is:\n```json\n{"a": 4}\n```\n'), with_tools=False)
    assert action == ModelAnswered('{"a": 4}')


def test_of_an_answer_that_was_cut_off_only_the_beginning_is_sent_back() -> None:
    state, action = loop.process_completion(START, said("long " * 4_000, is_cut=True), with_tools=True)
    assert isinstance(action, Repair)
    assert len(str(state.messages[-2]["content"])) < 2_100
    assert str(state.messages[-2]["content"]).endswith(" ...")


def test_a_note_stands_behind_the_last_result() -> None:
    calls = [ToolCall("1", "find", "{}"), ToolCall("2", "find", "{}")]
    state = loop.add_tool_results(START, [(call, "found") for call in calls], note="Cite it.")
    assert [message["content"] for message in state.messages[1:]] == ["found", "found\nCite it."]
