import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it comes without types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_local.model_server import demo_chat
from kb_local.model_server.chat_api import ChatReply, ChatRequest, chat_events
from kb_local.model_server.demo_chat import LABEL, NOTHING_FOUND, passages_in, question_in
from kb_local.model_server.quotable_sentences import Passage, QuotableSentence

SEARCH = {"type": "function", "function": {"name": "search", "parameters": {"properties": {"query": {}}}}}
OTHER = {"type": "function", "function": {"name": "other", "parameters": {"properties": {}}}}


def request(*messages: tuple[str, str], **fields: Any) -> ChatRequest:
    return ChatRequest(
        model=demo_chat.NAME, messages=[{"role": role, "content": content} for role, content in messages], **fields
    )


def result(*passages: tuple[str, str]) -> str:
    return data("\n\n".join(f"{citation} a.md\n{quote(text)}" for citation, text in passages))


def quote(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))


def data(text: str) -> str:
    return f"<<<x>>>\n{text}\n<<<end x>>>"


async def answer(*messages: tuple[str, str], **fields: Any) -> str | None:
    """Return the answer of the model when words alone are compared."""
    return (await demo_chat.reply(request(*messages, **fields), None)).text


async def searched_for(*messages: tuple[str, str]) -> list[Any]:
    reply = await demo_chat.reply(request(*messages, tools=[SEARCH, OTHER]), None)
    return [(call.name, json.loads(call.arguments)["query"]) for call in reply.tool_calls]


async def test_it_searches_with_the_question_and_only_with_tools_that_take_one() -> None:
    assert await searched_for(("system", "s"), ("user", "What is a fence?")) == [("search", "What is a fence?")]


async def test_it_answers_with_the_sentence_nearest_to_the_question_and_its_citation() -> None:
    found = result(("[1]", "Bread is baked. A fence is a write."), ("[2]", "Nothing else matters here."))
    reply = await demo_chat.reply(request(("user", "What is a fence?"), ("tool", found), tools=[SEARCH]), None)
    assert reply.text == f"{LABEL} A fence is a write. [1]"
    assert not reply.tool_calls


async def test_in_a_conversation_it_searches_for_the_newest_question() -> None:
    earlier = (("user", "What is bread?"), ("tool", result(("[1]", "Bread is baked."))), ("assistant", "Baked."))
    assert await searched_for(*earlier, ("user", "What is a fence?")) == [("search", "What is a fence?")]


@pytest.mark.parametrize("follow_up", ["and how many can be carried over?", "When must they be taken?", "And then?"])
async def test_a_question_without_a_subject_is_searched_and_answered_with_the_one_before(follow_up: str) -> None:
    before = (("user", "How many days of holiday are there?"), ("assistant", "Each has 28 days of holiday. [1]"))
    asked = f"How many days of holiday are there? {follow_up}"
    assert await searched_for(*before, ("user", follow_up)) == [("search", asked)]
    found = result(("[1]", "# Holidays\n\nUp to five days can be carried over, and must be taken by March."))
    text = await answer(*before, ("user", "and how many can be carried over?"), ("tool", found))
    assert text == f"{LABEL} Up to five days can be carried over, and must be taken by March. [1]"


async def test_it_quotes_the_document_that_the_question_is_about_without_a_citation() -> None:
    document = data(f"a.md\n{quote('Bread is baked. A fence is a write.')}")
    conversation = (("user", f"About:\n{document}\n\nWhat is a fence?"),)
    assert await answer(*conversation) == f"{LABEL} A fence is a write."
    found = await answer(*conversation, ("tool", result(("[1]", "A fence fails."))), tools=[SEARCH])
    assert found == f"{LABEL} A fence is a write."


async def test_it_answers_from_passages_that_stand_before_the_question() -> None:
    found = result(("[1]", "Bread is baked."), ("[2]", "A fence is a write.\n[3] And\nno more."))
    asked = f"Passages:\n{found}\n\nQuestion: What is a fence?\n\nAnswer from the passages of bread."
    assert question_in(asked) == "What is a fence?"
    assert await answer(("user", asked)) == f"{LABEL} A fence is a write. [2]"


async def test_it_quotes_neither_passages_that_share_much_less_nor_questions() -> None:
    found = result(
        ("[1]", "What is a fence?"),
        ("[2]", "A fence is a write."),
        ("[3]", "Everybody may write about gardens and bread."),
    )
    text = await answer(("user", "Which fence is a write?"), ("tool", found))
    assert text == f"{LABEL} A fence is a write. [2]"


async def test_when_no_sentence_is_near_it_says_that_the_documents_do_not_answer() -> None:
    found = result(("[1]", "# Bread\n\nBread is baked in the oven."))
    refused = f"{LABEL} {NOTHING_FOUND}"
    assert await answer(("user", "What is the capital of France?"), ("tool", found)) == refused
    assert await answer(("user", "What is bread?"), ("tool", "Nothing was found.")) == refused
    assert await answer(("user", "x")) == refused


async def test_the_source_of_a_passage_is_the_name_of_its_document() -> None:
    headers = ["[12] a, b.md, page 3 (only its beginning)", "[2] a.md, page 3", "[3] a.md (only its beginning)", "a.md"]
    read = [next(passages_in(data(f"{header}\n> x"))) for header in headers]
    assert [(each.citation, each.source) for each in read] == [
        ("[12]", "a, b.md"),
        ("[2]", "a.md"),
        ("[3]", "a.md"),
        ("", "a.md"),
    ]


@given(st.text())
def test_a_result_it_can_not_read_has_no_passages(text: str) -> None:
    assert all(isinstance(each, Passage) for each in (*passages_in(text), *passages_in(data(text))))


SCHEMAS = st.recursive(
    st.sampled_from(
        [
            {"type": "string"},
            {"type": "string", "maxLength": 9},
            {"type": "integer", "minimum": 3},
            {"type": "number"},
            {"type": "boolean"},
            {"type": "null"},
            {"enum": ["a", "b"]},
            {"const": 7},
            {"type": ["string", "null"]},
        ]
    ),
    lambda inner: st.one_of(
        st.builds(lambda each: {"type": "array", "items": each, "minItems": 2, "maxItems": 3}, inner),
        st.builds(lambda each: {"anyOf": [each, {"type": "null"}]}, inner),
        st.dictionaries(st.sampled_from("abc"), inner).map(
            lambda each: {
                "type": "object",
                "properties": each,
                "required": list(each),
                "additionalProperties": False,
            }
        ),
    ),
    max_leaves=6,
)


@given(SCHEMAS, st.lists(st.just(QuotableSentence("[1]", "A sentence.")), max_size=5))
def test_the_value_it_makes_for_a_schema_is_valid(schema: dict[str, Any], quotes: list[QuotableSentence]) -> None:
    jsonschema.validate(demo_chat.value_for(schema, quotes), schema)


@given(st.text())
def test_a_streamed_answer_is_the_whole_one_in_pieces(text: str) -> None:
    asked = request(("user", "x"), stream=True, stream_options={"include_usage": True})
    events = [event.removeprefix("data: ").strip() for event in chat_events(asked, ChatReply(text))]
    assert events[-1] == "[DONE]"
    bodies = [json.loads(event) for event in events[:-1]]
    assert "".join(choice["delta"].get("content", "") for each in bodies for choice in each["choices"]) == text
    assert bodies[-1]["usage"]["total_tokens"] == 0
