"""What a model is told, in which order, and what is searched for it."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kb_contracts.api.search import MAX_QUERY_CHARACTERS
from kb_search.runs.auto_search import build_query, plan_auto_search
from kb_search.runs.knowledge_tools import KnowledgeTool
from kb_search.runs.loop import RunLimits
from kb_search.runs.plan import Plan, SearchFindings
from kb_search.runs.prompt import PromptParts, build_rules
from kb_shared.chat.models import ChatModel
from kb_shared.chat.outgoing_messages import join_neighbours
from kb_shared.chat.prompt_delimiter import PromptDelimiter

TOOL = KnowledgeTool("search_pier", "Search", ["kb"])
MODEL = ChatModel("m", "m", "m", None, "", None, None, 0.0, 0.0, takes_schema=True, fingerprint="m")
FOUND = SearchFindings(["[1] pier.md\n> The pier is 90 m long."], example=1)


def plan(**known: Any) -> Plan:
    return Plan(
        "run",
        "organization",
        "key",
        MODEL,
        **{
            "instructions": "Be brief.",
            "history": [],
            "question": [{"role": "user", "content": "How long is the pier?"}],
            "questions": ["How long is the pier?"],
            "tools": [TOOL],
            "schema": None,
            "limits": RunLimits(3, 1_000, 5, 60.0),
            "delimiter": PromptDelimiter("0123456789abcdef"),
            **known,
        },
    )


def test_the_rules_are_the_same_in_each_run_and_the_random_code_is_not_among_them() -> None:
    one, other = (plan(delimiter=PromptDelimiter.create()).messages() for _ in range(2))
    assert one == other
    assert "[1]" in str(one[0]["content"])


def test_each_rule_is_there_only_where_it_applies() -> None:
    assert build_rules(PromptParts(), "", None) == ""
    assert build_rules(PromptParts(), "Be brief.", None) == "Be brief."
    with_tools = build_rules(PromptParts(has_tools=True), "Be brief.", None)
    assert with_tools.endswith("\n\nBe brief.")
    assert "Search first" in with_tools
    assert "`sources`" not in with_tools
    assert "no number" not in with_tools
    found = build_rules(PromptParts(has_tools=True, has_passages=True), "", None)
    assert "Search first" not in found
    document = build_rules(PromptParts(has_document=True), "", None)
    assert "such as [1]" not in document
    assert "no number" in document
    assert '{"type": "object"}' in build_rules(PromptParts(), "", {"type": "object"})


def test_passages_question_and_reminder_are_one_message_in_this_order() -> None:
    history = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good day."}]
    *before, last = join_neighbours(plan(history=history).messages(FOUND))
    assert [message["role"] for message in before] == ["system", "user", "assistant"]
    passages, question, reminder = (
        str(last["content"]).index(part) for part in ("> The pier", "Question: How long is the pier?", "in brackets")
    )
    assert passages < question < reminder


def test_with_tools_the_question_stands_as_it_is() -> None:
    assert plan().messages()[-1] == {"role": "user", "content": "How long is the pier?"}


def test_a_search_that_found_nothing_and_a_schema_have_reminders_of_their_own() -> None:
    nothing = plan().messages(SearchFindings(["Nothing was found."], example=None))[-1]
    assert "found nothing" in str(nothing["content"])
    by_schema = plan(schema={"type": "object"}).messages(FOUND)[-1]
    assert "JSON" in str(by_schema["content"])


def test_marks_that_an_assistant_wrote_in_another_run_are_not_sent() -> None:
    question = [
        {"role": "user", "content": "Is [1] right?"},
        {"role": "assistant", "content": "It is 90 m [1], see [2019] AC 4."},
        {"role": "user", "content": "And the quay?"},
    ]
    contents = [message["content"] for message in plan(question=question).messages()[1:]]
    assert contents == ["Is [1] right?", "It is 90 m, see [2019] AC 4.", "And the quay?"]


MESSAGES = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant"]),
        st.sampled_from(["", " \n", "a", "b", "c"]),
    )
)


@given(MESSAGES)
def test_no_two_neighbours_have_one_role_none_is_empty_and_no_word_is_lost(messages: list[dict[str, Any]]) -> None:
    joined = join_neighbours(messages)
    roles = [message["role"] for message in joined]
    assert all(one != other for one, other in pairwise(roles))
    assert all(str(message["content"]).strip() for message in joined)
    words = [word for message in messages for word in message["content"].split()]
    assert [word for message in joined for word in str(message["content"]).split()] == words


def test_calls_and_their_results_are_never_joined() -> None:
    call: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    results = [{"role": "tool", "tool_call_id": each, "content": ""} for each in "12"]
    messages = [{"role": "assistant", "content": "So."}, call, *results]
    assert join_neighbours(messages) == messages


def test_a_follow_up_is_searched_with_the_two_questions_before_it() -> None:
    asked = ["Who runs the crane?", "How long is the pier?", "And the quay?", "And how deep?"]
    assert build_query(asked) == "How long is the pier? And the quay? And how deep?"
    assert build_query(asked[1:2]) == "How long is the pier?"
    assert build_query(["x" * 700, "And now?"]) == "And now?", "a pasted text says nothing about the question"
    assert build_query(["Who?", "Who?"]) == "Who?"
    assert build_query(["Who?", " "]) == build_query([]) == ""
    assert build_query(["Who?", "y" * MAX_QUERY_CHARACTERS]) == "y" * MAX_QUERY_CHARACTERS


def test_a_question_is_searched_once_with_each_tool() -> None:
    calls = plan_auto_search(["How long?"], [TOOL, replace(TOOL, name="search_quay")])
    assert [(call.call_id, call.name, call.arguments) for call in calls] == [
        ("auto_search_1", "search_pier", '{"query": "How long?"}'),
        ("auto_search_2", "search_quay", '{"query": "How long?"}'),
    ]
    assert plan_auto_search(["  "], [TOOL]) == []
