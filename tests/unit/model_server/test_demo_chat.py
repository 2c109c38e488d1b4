import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it comes without types
from hypothesis import given
from hypothesis import strategies as st

from kb_local.model_server import demo_chat
from kb_local.model_server.chat_api import ChatReply, ChatRequest, chat_events
from kb_local.model_server.demo_chat import LABEL, NOTHING_FOUND, Quote, best_quotes, passages_in, question_in

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


def test_it_searches_with_the_question_and_only_with_tools_that_take_one() -> None:
    reply = demo_chat.reply(request(("system", "s"), ("user", "What is a fence?"), tools=[SEARCH, OTHER]))
    assert [(call.name, json.loads(call.arguments)) for call in reply.tool_calls] == [
        ("search", {"query": "What is a fence?"})
    ]


def test_it_answers_with_the_sentence_that_shares_most_with_the_question_and_its_citation() -> None:
    found = result(("[1]", "Bread is baked. A fence is a write."), ("[2]", "Nothing else matters here."))
    reply = demo_chat.reply(request(("user", "What is a fence?"), ("tool", found), tools=[SEARCH]))
    assert reply.text == f"{LABEL} A fence is a write. [1]"
    assert not reply.tool_calls


def test_in_a_conversation_it_searches_for_the_newest_question() -> None:
    earlier = (("user", "What is bread?"), ("tool", result(("[1]", "Bread is baked."))), ("assistant", "Baked."))
    reply = demo_chat.reply(request(*earlier, ("user", "What is a fence?"), tools=[SEARCH]))
    assert json.loads(reply.tool_calls[0].arguments) == {"query": "What is a fence?"}


def test_it_quotes_the_document_that_the_question_is_about_without_a_citation() -> None:
    document = data(f"a.md\n{quote('Bread is baked. A fence is a write.')}")
    conversation = (("user", f"About:\n{document}\n\nWhat is a fence?"),)
    assert demo_chat.reply(request(*conversation)).text == f"{LABEL} A fence is a write."
    found = demo_chat.reply(request(*conversation, ("tool", result(("[1]", "A fence fails."))), tools=[SEARCH])).text
    assert found == f"{LABEL} A fence fails. [1] A fence is a write."


def test_it_answers_from_passages_that_stand_before_the_question() -> None:
    found = result(("[1]", "Bread is baked."), ("[2]", "A fence is a write.\n[3] And\nno more."))
    asked = f"Passages:\n{found}\n\nQuestion: What is a fence?\n\nAnswer from the passages of bread."
    assert question_in(asked) == "What is a fence?"
    assert demo_chat.reply(request(("user", asked))).text == f"{LABEL} A fence is a write. [2]"


def test_it_quotes_neither_passages_that_share_much_less_nor_questions() -> None:
    found = result(
        ("[1]", "What is a fence?"),
        ("[2]", "A fence is a write."),
        ("[3]", "Everybody may write about gardens and bread."),
    )
    reply = demo_chat.reply(request(("user", "Which fence is a write?"), ("tool", found), tools=[SEARCH]))
    assert reply.text == f"{LABEL} A fence is a write. [2]"


def test_a_name_with_a_full_stop_is_quoted_whole() -> None:
    found = result(
        ("[1]", "The fence is in fence.py and\nnowhere else. Bread."),
    )
    reply = demo_chat.reply(request(("user", "Where is the fence?"), ("tool", found), tools=[SEARCH]))
    assert reply.text == f"{LABEL} The fence is in fence.py and [1]"


def test_without_passages_it_says_so() -> None:
    assert demo_chat.reply(request(("user", "x"))).text == f"{LABEL} {NOTHING_FOUND}"
    assert demo_chat.reply(request(("user", "x"), ("tool", "no JSON {"), tools=[SEARCH])).text is not None


@given(st.lists(st.tuples(st.sampled_from(["[1]", "[2]", "[3]"]), st.text(max_size=80)), max_size=4), st.text())
def test_its_quotes_stand_in_the_passages_that_it_cites(passages: list[tuple[str, str]], question: str) -> None:
    given_passages = [Quote(citation, text) for citation, text in passages]
    for quote in best_quotes(question, given_passages):
        assert any(
            quote.citation == each.citation and quote.text in " ".join(each.text.split()) for each in given_passages
        )


@given(st.text())
def test_a_result_it_can_not_read_has_no_passages(text: str) -> None:
    assert all(isinstance(each, Quote) for each in (*passages_in(text), *passages_in(data(text))))


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


@given(SCHEMAS, st.lists(st.just(Quote("[1]", "A sentence.")), max_size=5))
def test_the_value_it_makes_for_a_schema_is_valid(schema: dict[str, Any], quotes: list[Quote]) -> None:
    jsonschema.validate(demo_chat.value_for(schema, quotes), schema)


@given(st.text())
def test_a_streamed_answer_is_the_whole_one_in_pieces(text: str) -> None:
    asked = request(("user", "x"), stream=True, stream_options={"include_usage": True})
    events = [event.removeprefix("data: ").strip() for event in chat_events(asked, ChatReply(text))]
    assert events[-1] == "[DONE]"
    bodies = [json.loads(event) for event in events[:-1]]
    assert "".join(choice["delta"].get("content", "") for each in bodies for choice in each["choices"]) == text
    assert bodies[-1]["usage"]["total_tokens"] == 0
