"""A chat model for demonstrations: no language model, but sentences quoted from the passages it found.

It searches with the question as it stands, and answers with the sentences that share most with it, of the passages each
with its citation, and of the document that the question is about. The same request always gets the same answer, which
says what it is.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from kb_local.model_server.chat_api import ChatReply, ChatRequest, RequestedToolCall, text_of

NAME = "demo-extractive"
LABEL = "[demo model: sentences quoted from the passages]"
NOTHING_FOUND = "No passage was found that answers this."

MOST_CALLS = 4
MOST_SENTENCES = 3
LEAST_SHARE = 0.5
"""Least part of what the best sentence shares with the question that another one must share to be quoted."""
MOST_CHARACTERS = 400
"""Limit of a sentence; code and tables are one sentence of any length."""

_WORD = re.compile(r"[^\W_]+")
# A full stop within a name, such as that of a file, ends no sentence.
_SENTENCE = re.compile(r"(?:[^.!?\n]|[.!?](?=\S))+[.!?]*")
_DATA = re.compile(r"^<<<(?P<code>\w+)>>>\n(?P<text>.*?)\n<<<end (?P=code)>>>$", re.MULTILINE | re.DOTALL)
_END_OF_DATA = re.compile(r"^<<<end \w+>>>$", re.MULTILINE)
_QUOTED = re.compile(r"^([^>\n][^\n]*)\n((?:>[^\n]*(?:\n|\Z))+)", re.MULTILINE)
_NUMBER = re.compile(r"\[\d+\]")
_ASKED = "Question: "
_STOP_WORDS = frozenset(
    _WORD.findall(
        "a an and are as at be by can do does for from have how i in is it of on or that the this to was what when"
        " where which who why will with you your"
    )
)


@dataclass(frozen=True, slots=True)
class Quote:
    citation: str
    """Mark such as `[1]`, as it came with the passage; "" for a document, which is not cited."""
    text: str


def reply(request: ChatRequest) -> ChatReply:
    """Search first, if there is a tool to search with and nothing was found yet; then answer."""
    asked = request.last("user")
    question = question_in(asked)
    results = [text_of(each) for each in request.after_last("user") if each.get("role") == "tool"]
    if not results and (calls := _searches(request.tools or (), question)):
        return ChatReply(tool_calls=calls, prompt_tokens=request.words, completion_tokens=len(calls))
    quotes = best_quotes(question, list(chain.from_iterable(map(passages_in, [*results, asked]))))
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


def passages_in(message: str) -> Iterator[Quote]:
    """Read the passages, or the document that a question is about, that a message brings as data."""
    for data in _DATA.finditer(message):
        for header, lines in _QUOTED.findall(data["text"]):
            number = _NUMBER.match(header)
            text = "\n".join(line.removeprefix(">").removeprefix(" ") for line in lines.splitlines())
            yield Quote(number[0] if number else "", text)


def best_quotes(question: str, passages: Sequence[Quote]) -> list[Quote]:
    """Return the sentences that share most with the question, a word counting more the rarer it is in the passages."""
    wanted = set(_words(question))
    sentences = list(dict.fromkeys(chain.from_iterable(map(_sentences, passages))))
    seen_in = Counter(chain.from_iterable(set(_words(each.text)) for each in sentences))
    weights = {word: math.log(1 + len(sentences) / seen_in[word]) for word in wanted if seen_in[word]}

    def shared(quote: Quote) -> float:
        words = set(_words(quote.text))
        return sum(weights.get(word, 0.0) for word in words) / math.sqrt(len(words) + 4)

    # A question that a passage asks shares most with the question, and answers nothing.
    ranked = sorted((each for each in sentences if not each.text.endswith("?")), key=shared, reverse=True)
    least = LEAST_SHARE * shared(ranked[0]) if ranked else 0.0
    best = [each for each in ranked[:MOST_SENTENCES] if shared(each) > 0 and shared(each) >= least]
    # A passage was found for its meaning, though it may share no word with the question.
    return best or sentences[:1]


def answer(quotes: Sequence[Quote]) -> str:
    said = " ".join(f"{quote.text} {quote.citation}".rstrip() for quote in quotes)
    return f"{LABEL} {said or NOTHING_FOUND}"


def value_for(schema: Any, quotes: Sequence[Quote]) -> Any:
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


def _value_of_type(kind: str, schema: dict[str, Any], *, quotes: Sequence[Quote]) -> Any:
    match kind:
        case "object":
            return {name: value_for(each, quotes) for name, each in (schema.get("properties") or {}).items()}
        case "array":
            return _array_for(schema, quotes)
        case "string":
            return answer(quotes)[: schema.get("maxLength")]
    least = math.ceil(schema.get("minimum", 0))
    return {"integer": least, "number": least, "boolean": False}.get(kind)


def _array_for(schema: dict[str, Any], quotes: Sequence[Quote]) -> list[Any]:
    of_each = schema.get("items", {})
    values = [value_for(of_each, [quote]) for quote in quotes[: schema.get("maxItems")]]
    missing = max(0, schema.get("minItems", 0) - len(values))
    return values + [value_for(of_each, [])] * missing


def _sentences(passage: Quote) -> Iterator[Quote]:
    for found in _SENTENCE.finditer(passage.text):
        text = " ".join(found[0].split())[:MOST_CHARACTERS]
        if len(_words(text)) > 1:
            yield Quote(passage.citation, text)


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS]
