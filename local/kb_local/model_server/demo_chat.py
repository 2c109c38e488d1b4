"""A chat model for demonstrations: no language model, but sentences quoted from the passages it found.

It searches with the question as it stands, after the questions before it if it follows them, and answers with the
sentences that are nearest to it, each with the citation of its passage; also with those of the document that the
question is about. If none is near enough, it says that the documents do not answer. Each answer says
what it is.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from kb_contracts.api.chat_models import DEMO_MODEL
from kb_local.model_server.chat_api import ChatReply, ChatRequest, RequestedToolCall, text_of
from kb_local.model_server.nearest_sentences import EmbedTexts, nearest_sentences
from kb_local.model_server.questions import with_questions_before
from kb_local.model_server.quotable_sentences import Passage, QuotableSentence, read_sentences

NAME = DEMO_MODEL
LABEL = "[demo model: sentences quoted from the passages]"
NOTHING_FOUND = "The documents do not answer this."

MOST_CALLS = 4

_DATA = re.compile(r"^<<<(?P<code>\w+)>>>\n(?P<text>.*?)\n<<<end (?P=code)>>>$", re.MULTILINE | re.DOTALL)
_END_OF_DATA = re.compile(r"^<<<end \w+>>>$", re.MULTILINE)
_QUOTED = re.compile(r"^([^>\n][^\n]*)\n((?:>[^\n]*(?:\n|\Z))+)", re.MULTILINE)
_HEADER = re.compile(r"(?P<citation>\[\d+\])?[ ]?(?P<source>[^\n]*?)(?:, page \d+)?(?: \(only its beginning\))?")
_ASKED = "Question: "


async def reply(request: ChatRequest, embed: EmbedTexts | None) -> ChatReply:
    """Search first, if there is a tool to search with and nothing was found yet; then answer.

    Args:
        request: Conversation, with the results of searches.
        embed: Model that compares the meaning of sentences; None: their words alone are compared.
    """
    asked = request.last("user")
    question = with_questions_before(
        [question_in(text_of(each)) for each in request.messages if each.get("role") == "user"]
    )
    results = [text_of(each) for each in request.after_last("user") if each.get("role") == "tool"]
    if not results and (calls := _searches(request.tools or (), question)):
        return ChatReply(tool_calls=calls, prompt_tokens=request.words, completion_tokens=len(calls))
    passages = [passage for text in (*results, asked) for passage in passages_in(text)]
    quotes = await nearest_sentences(question, read_sentences(passages), embed)
    if request.answer_schema is not None:
        text = json.dumps(value_for(request.answer_schema, quotes), ensure_ascii=False)
    else:
        text = answer(quotes)
    return ChatReply(text, prompt_tokens=request.words, completion_tokens=len(text.split()))


def _searches(tools: Sequence[dict[str, Any]], question: str) -> list[RequestedToolCall]:
    names = [
        str(function.get("name"))
        for tool in tools
        if "query" in (((function := tool.get("function") or {}).get("parameters") or {}).get("properties") or {})
    ]
    arguments = json.dumps({"query": question}, ensure_ascii=False)
    return [RequestedToolCall(f"call_{number}", name, arguments) for number, name in enumerate(names[:MOST_CALLS], 1)]


def question_in(message: str) -> str:
    """Return what a message asks: what stands behind its data, without the rules that come with passages."""
    _, asked, question = _END_OF_DATA.split(message)[-1].rpartition(_ASKED)
    return question.rpartition("\n\n")[0].strip() or question.strip() if asked else question.strip()


def passages_in(message: str) -> Iterator[Passage]:
    """Read the passages, or the document that a question is about, that a message brings as data."""
    for data in _DATA.finditer(message):
        for header, lines in _QUOTED.findall(data["text"]):
            found = _HEADER.fullmatch(header)
            text = "\n".join(line.removeprefix(">").removeprefix(" ") for line in lines.splitlines())
            yield Passage(found["citation"] or "", text, source=found["source"]) if found else Passage("", text)


def answer(quotes: Sequence[QuotableSentence]) -> str:
    said = " ".join(f"{quote.text} {quote.citation}".rstrip() for quote in quotes)
    return f"{LABEL} {said or NOTHING_FOUND}"


def value_for(schema: Any, quotes: Sequence[QuotableSentence]) -> Any:
    """Fill a JSON schema in: texts with the quotes, all else with the first value that it allows."""
    if not isinstance(schema, dict):
        return answer(quotes)
    for fixed in (schema.get("enum"), [schema["const"]] if "const" in schema else None):
        if fixed:
            return fixed[0]
    for alternatives in ("anyOf", "oneOf", "allOf"):
        if schema.get(alternatives):
            return value_for(schema[alternatives][0], quotes)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return _value_of_type(kind[0] if isinstance(kind, list) else kind, schema, quotes=quotes)


def _value_of_type(kind: str, schema: dict[str, Any], *, quotes: Sequence[QuotableSentence]) -> Any:
    match kind:
        case "object":
            return {name: value_for(each, quotes) for name, each in (schema.get("properties") or {}).items()}
        case "array":
            return _array_for(schema, quotes)
        case "string":
            return answer(quotes)[: schema.get("maxLength")]
    least = math.ceil(schema.get("minimum", 0))
    return {"integer": least, "number": least, "boolean": False}.get(kind)


def _array_for(schema: dict[str, Any], quotes: Sequence[QuotableSentence]) -> list[Any]:
    of_each = schema.get("items", {})
    values = [value_for(of_each, [quote]) for quote in quotes[: schema.get("maxItems")]]
    missing = max(0, schema.get("minItems", 0) - len(values))
    return values + [value_for(of_each, [])] * missing
