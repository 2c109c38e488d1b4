"""Answers of chat providers as they are seen in the wild, each with what it means."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

NAMES: Final = ("find_rates", "find_rooms")
TEXT: Final = "The ferry takes 95 minutes [1]."
ARGUMENTS: Final = '{"query": "ferry to Hven"}'
OTHER_ARGUMENTS: Final = '{"query": "bus to Lund"}'
CALL: Final = ("find_rates", ARGUMENTS)
OTHER_CALL: Final = ("find_rooms", OTHER_ARGUMENTS)
USAGE: Final = {"prompt_tokens": 40, "completion_tokens": 9, "total_tokens": 49}
Message = Mapping[str, Any]


@dataclass(frozen=True)
class Variation:
    """One answer, in one form."""

    name: str
    body: str
    text: str | None = TEXT
    calls: Sequence[tuple[str, str]] = ()
    error: str | None = None
    """Type of the error, where there is no answer."""
    status: int = 200
    is_cut: bool = False
    returned: Mapping[str, Any] = field(default_factory=dict)
    """Thoughts that go back to the provider."""
    kind: str = ""


def whole(message: Any, finish: Any = "stop", **more: Any) -> str:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json.dumps(
        {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": USAGE} | more
    )


def stream(*deltas: Any, finish: Any = "stop", end: str = "data: [DONE]\n\n", usage: bool = True) -> str:
    pieces = [piece({"role": "assistant"}), *map(piece, deltas), piece({}, finish)]
    pieces += [{"id": "c", "choices": [], "usage": USAGE}] if usage else []
    return events(*pieces) + end


def piece(delta: Any, finish: Any = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def events(*pieces: Any) -> str:
    return "".join(f"data: {json.dumps(each, ensure_ascii=False)}\n\n" for each in pieces)


def cut(text: str, size: int = 5) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def call(name: str = "find_rates", arguments: Any = ARGUMENTS, **more: Any) -> dict[str, Any]:
    return {"id": f"id-{name}", "type": "function", "function": {"name": name, "arguments": arguments}} | more


def both(name: str, message: Message, finish: Any = "stop", **expected: Any) -> Iterator[Variation]:
    """Make the same message a whole answer and a stream."""
    yield Variation(f"{name}, whole", whole({"role": "assistant", **message}, finish), **expected)
    deltas: list[Any] = []
    for key, value in message.items():
        if isinstance(value, str):
            deltas += [{key: part} for part in cut(value)] or [{key: value}]
        elif key == "tool_calls" and isinstance(value, list):
            deltas += [{key: [{"index": at, **each}]} for at, each in enumerate(value)]
        else:
            deltas.append({key: value})
    yield Variation(f"{name}, streamed", stream(*deltas, finish=finish), **expected)


def in_text(name: str, written: str, **expected: Any) -> Iterator[Variation]:
    yield from both(name, {"content": written}, **expected)


def calls_in_text() -> Iterator[Variation]:
    as_json = f'{{"name": "find_rates", "arguments": {ARGUMENTS}}}'
    other_json = f'{{"name": "find_rooms", "arguments": {OTHER_ARGUMENTS}}}'
    one: dict[str, Any] = {"text": "", "calls": [CALL]}
    for name, written in {
        "a call in Hermes' tags": f"<tool_call>\n{as_json}\n</tool_call>",
        "a call in a tag that stays open": f"<tool_call>\n{as_json}",
        "a call of Mistral": f"[TOOL_CALLS] [{as_json}]",
        "a call of Mistral with its name first": f"[TOOL_CALLS]find_rates[ARGS]{ARGUMENTS}",
        "a call of Llama": f'<|python_tag|>{{"name": "find_rates", "parameters": {ARGUMENTS}}}',
        "a call of Llama as Python": '<|python_tag|>find_rates.call(query="ferry to Hven")',
        "a call of Llama in a tag": f"<function=find_rates>{ARGUMENTS}</function>",
        "a call in a fence": f"```json\n{as_json}\n```",
        "a call in a fence without a language": f"```\n{as_json}\n```",
        "a bare call": as_json,
        "a bare call over several lines": json.dumps(json.loads(as_json), indent=2),
        "a call with its arguments first": f'{{"arguments": {ARGUMENTS}, "name": "find_rates"}}',
        "a call with encoded arguments": json.dumps({"name": "find_rates", "arguments": ARGUMENTS}),
        "a call in OpenAI's form": json.dumps({"tool_calls": [call()]}),
        "a call with the name as its key": f'{{"find_rates": {ARGUMENTS}}}',
        "a call as JavaScript": f"functions.find_rates({ARGUMENTS})",
        "a call as Python": 'find_rates(query="ferry to Hven")',
        "a list of calls as Python": '[find_rates(query="ferry to Hven")]',
        "a call of Gemma": '```tool_code\nprint(find_rates(query="ferry to Hven"))\n```',
        "a call in Python's quotes": "{'name': 'find_rates', 'arguments': {'query': 'ferry to Hven'}}",
        "a call of Qwen Coder": "<tool_call>\n<function=find_rates>\n<parameter=query>\nferry to Hven\n</parameter>\n</function>\n</tool_call>",
        "a call of GLM": "<tool_call>find_rates\n<arg_key>query</arg_key>\n<arg_value>ferry to Hven</arg_value>\n</tool_call>",
        "a call of MiniMax": '<minimax:tool_call><invoke name="find_rates"><parameter name="query">ferry to Hven</parameter></invoke></minimax:tool_call>',
        "a call of DeepSeek": f"<\uff5ctool▁calls▁begin\uff5c><\uff5ctool▁call▁begin\uff5c>function<\uff5ctool▁sep\uff5c>find_rates\n```json\n{ARGUMENTS}\n```<\uff5ctool▁call▁end\uff5c>",
        "a call of Kimi": f"<|tool_calls_section_begin|><|tool_call_begin|>functions.find_rates:0<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|>",
        "a call of gpt-oss": f"<|channel|>commentary to=functions.find_rates <|constrain|>json<|message|>{ARGUMENTS}<|call|>",
        "a call of Granite": f"<|tool_call|>[{as_json}]",
        "a call of Phi": f"functools[{as_json}]",
        "a call of Command R": f'<|START_ACTION|>[{{"tool_call_id": "0", "tool_name": "find_rates", "parameters": {ARGUMENTS}}}]<|END_ACTION|>',
        "a call of Nemotron": f"<TOOLCALL>[{as_json}]</TOOLCALL>",
        "a call of LFM": '<|tool_call_start|>[find_rates(query="ferry to Hven")]<|tool_call_end|>',
        "a call of ReAct": f"Action: find_rates\nAction Input: {ARGUMENTS}",
        "a call of gpt-oss with the tool beside the role": f"<|start|>assistant to=functions.find_rates<|channel|>commentary json<|message|>{ARGUMENTS}<|call|>",
        "a call of gpt-oss without its marks": f"commentary to=functions.find_rates json{ARGUMENTS}",
        "a call of gpt-oss after a thought, without its marks": f"analysisI look it up.assistantcommentary to=functions.find_rates json{ARGUMENTS}",
        "a call of Llama 4": '<|python_start|>[find_rates(query="ferry to Hven")]<|python_end|>',
        "a call of Functionary": f">>>find_rates\n{ARGUMENTS}",
        "a call of FunctionGemma": "<start_function_call>call:find_rates{query:<escape>ferry to Hven<escape>}<end_function_call>",
        "a call of Gemma 4": '<|tool_call>call:find_rates{query:<|"|>ferry to Hven<|"|>}<tool_call|>',
        "a call of DeepSeek 3.2": "<\uff5cDSML\uff5cfunction_calls>\n"
        '<\uff5cDSML\uff5cinvoke name="find_rates">\n<\uff5cDSML\uff5cparameter name="query" string="true">ferry to Hven'
        "</\uff5cDSML\uff5cparameter>\n</\uff5cDSML\uff5cinvoke>\n</\uff5cDSML\uff5cfunction_calls>",
        "a call of Apertus": f'<|tools_prefix|>[{{"find_rates": {ARGUMENTS}}}]<|tools_suffix|>',
        "a call of LongCat": f"<longcat_tool_call>{as_json}</longcat_tool_call>",
        "a call of ReAct after a thought": f"Thought: I need prices.\nAction: find_rates\nAction Input: {ARGUMENTS}",
        "a call in tags with its arguments as JSON": f"<tool_use>\n<name>find_rates</name>\n<arguments>{ARGUMENTS}</arguments>\n</tool_use>",
        "a call in a tag with the name of its tool": "<find_rates>\n<query>ferry to Hven</query>\n</find_rates>",
        "a call of Claude with prefixes": "<ns:function_calls>\n"
        '<ns:invoke name="find_rates"><ns:parameter name="query">ferry to Hven</ns:parameter></ns:invoke>\n</ns:function_calls>',
        "a call of Step": "<\uff5ctool_calls_begin\uff5c><\uff5ctool_call_begin\uff5c>function<\uff5ctool_sep\uff5c>"
        '<ns:invoke name="find_rates"><ns:parameter name="query">ferry to Hven</ns:parameter></ns:invoke>'
        "<\uff5ctool_call_end\uff5c><\uff5ctool_calls_end\uff5c>",
        "a call of Qwen Agent": f"✿FUNCTION✿: find_rates\n✿ARGS✿: {ARGUMENTS}\n✿RESULT✿",
        "a call of Llama with a comma in its tag": f"<function=find_rates,{ARGUMENTS}</function>",
        "a call of Gemma with a name for its result": '```tool_code\nfound = find_rates(query="ferry to Hven")\nprint(found)\n```',
        "a call after a thought": f"<think>Which tool?</think>\n<tool_call>{as_json}</tool_call>",
        "a call before the mark of the end": f"<tool_call>{as_json}</tool_call><|im_end|>",
    }.items():
        yield from in_text(name, written, **one)
    yield from in_text(
        "a call after a sentence",
        f"I look for it now.\n```json\n{as_json}\n```",
        text="I look for it now.",
        calls=[CALL],
    )
    for name, written in {
        "a call of ReAct with a text alone": "Action: find_rates\nAction Input: ferry to Hven\nObservation:",
        "a call of LangChain with a text alone": '{"action": "find_rates", "action_input": "ferry to Hven"}',
        "a call of Python with a text alone": 'find_rates("ferry to Hven")',
    }.items():
        yield from in_text(name, written, text="", calls=[("find_rates", '"ferry to Hven"')])
    yield from in_text(
        "a call of Gemma 4 with quotes, brackets and a number",
        '<|tool_call>call:find_rates{query:<|"|>"Hven" {a:1}<|"|>,most:3}<tool_call|>',
        text="",
        calls=[("find_rates", '{"query": "\\"Hven\\" {a:1}", "most": 3}')],
    )
    two: dict[str, Any] = {"text": "", "calls": [CALL, OTHER_CALL]}
    yield from in_text(
        "two calls in tags", f"<tool_call>{as_json}</tool_call>\n<tool_call>{other_json}</tool_call>", **two
    )
    yield from in_text("two calls in a list", f"[{as_json}, {other_json}]", **two)
    yield from in_text("two calls with semicolons", f"<|python_tag|>{as_json}; {other_json}", **two)
    for name, written in {
        "a call of a tool that was not offered": '{"name": "send_mail", "arguments": {"to": "a"}}',
        "an object that is no call": '{"name": "Hven", "minutes": 95}',
        "a sentence with the name of a tool": "With find_rates you find prices.",
        "a sentence with a tag": "Write <tool_call> before a call.",
        "brackets": "[1] and [2] say so.",
    }.items():
        yield from in_text(name, written, text=written)


def calls() -> Iterator[Variation]:
    one: dict[str, Any] = {"text": None, "calls": [CALL]}
    for name, arguments in {
        "arguments as an object": json.loads(ARGUMENTS),
        "arguments in a fence": f"```json\n{ARGUMENTS}\n```",
        "arguments encoded twice": json.dumps(ARGUMENTS),
        "arguments with the rest of a tag": f"{ARGUMENTS}</tool_call>",
        "arguments with a brace too many": f"{ARGUMENTS}}}",
        "arguments as Python": "{'query': 'ferry to Hven'}",
        "arguments in a list": f"[{ARGUMENTS}]",
        "arguments behind empty ones": f"{{}}{ARGUMENTS}",
        "arguments behind a mark": f"\ufeff{ARGUMENTS}",
        "arguments with the whole call, encoded": json.dumps({"name": "find_rates", "arguments": ARGUMENTS}),
        "arguments with a comma too many": '{"query": "ferry to Hven",}',
        "arguments with the whole call": f'{{"name": "find_rates", "arguments": {ARGUMENTS}}}',
    }.items():
        yield from both(name, {"content": None, "tool_calls": [call(arguments=arguments)]}, **one)
    yield from both(
        "arguments with a line break",
        {"content": None, "tool_calls": [call(arguments='{"query": "a\nb"}')]},
        text=None,
        calls=[("find_rates", '{"query": "a\\nb"}')],
    )
    for name, arguments in {
        "no arguments": "",
        "arguments that are null": None,
        "arguments that are no JSON": "{ferry",
    }.items():
        yield from both(
            name,
            {"content": None, "tool_calls": [call(arguments=arguments)]},
            text=None,
            calls=[("find_rates", arguments or "")],
        )
    for written in (
        "functions.find_rates",
        "Find_Rates",
        "find_rates ",
        "find-rates",
        "default_api.find_rates",
        "find_rates<|channel|>json",
        "functions.find_rates:0",
    ):
        yield from both(f"the name {written!r}", {"content": None, "tool_calls": [call(written)]}, **one)
    yield from both(
        "a name of no tool",
        {"content": None, "tool_calls": [call("send_mail")]},
        text=None,
        calls=[("send_mail", ARGUMENTS)],
    )
    yield from both(
        "the old function_call",
        {"content": None, "function_call": {"name": "find_rates", "arguments": ARGUMENTS}},
        finish="function_call",
        **one,
    )
    yield from both(
        "a call without a type",
        {"content": None, "tool_calls": [{"id": "a", "function": {"name": "find_rates", "arguments": ARGUMENTS}}]},
        **one,
    )
    yield from both(
        "a call without a function around it",
        {"content": None, "tool_calls": [{"id": "a", "name": "find_rates", "arguments": ARGUMENTS}]},
        **one,
    )
    yield from both("a call that is no list", {"content": None, "tool_calls": call()}, **one)
    yield from both(
        "a text beside a call", {"content": TEXT, "tool_calls": [call()]}, finish="tool_calls", calls=[CALL]
    )
    yield from both(
        "content that is empty beside a call", {"content": "", "tool_calls": [call()]}, text="", calls=[CALL]
    )
    yield from both("content that is missing beside a call", {"tool_calls": [call()]}, text="", calls=[CALL])
    yield from both(
        "a call of Claude among parts",
        {"content": [{"type": "tool_use", "id": "a", "name": "find_rates", "input": json.loads(ARGUMENTS)}]},
        text="",
        calls=[CALL],
    )
    two = [call(), call("find_rooms", OTHER_ARGUMENTS)]
    for name, changed in {
        "two calls": two,
        "two calls without ids": [{**each, "id": None} for each in two],
        "two calls with one id": [{**each, "id": "a"} for each in two],
        "two calls with empty ids": [{**each, "id": ""} for each in two],
    }.items():
        yield from both(name, {"content": None, "tool_calls": changed}, text=None, calls=[CALL, OTHER_CALL])
    yield from both("the same call twice", {"content": None, "tool_calls": [call(), call()]}, **one)


def calls_in_pieces() -> Iterator[Variation]:
    one: dict[str, Any] = {"text": "", "calls": [CALL]}
    two: dict[str, Any] = {"text": "", "calls": [CALL, OTHER_CALL]}
    first, second = call(), call("find_rooms", OTHER_ARGUMENTS)

    def streamed(name: str, *lists: list[dict[str, Any]], **expected: Any) -> Variation:
        return Variation(name, stream(*({"tool_calls": each} for each in lists), finish="tool_calls"), **expected)

    numbers: dict[str, dict[str, Any]] = {"index 0": {"index": 0}, "index null": {"index": None}, "no index": {}}
    for what, index in numbers.items():
        yield streamed(f"two calls with {what}", [first | index], [second | index], **two)
        yield streamed(f"two calls in one piece with {what}", [first | index, second | index], **two)
        begun = [
            {**each, "function": {"name": each["function"]["name"], "arguments": ""}} | index
            for each in (first, second)
        ]
        rests = [
            [{"function": {"arguments": part}} | index for part in cut(each["function"]["arguments"])]
            for each in (first, second)
        ]
        lists = [[part] for begin, rest in zip(begun, rests, strict=True) for part in (begin, *rest)]
        yield streamed(f"two calls in pieces with {what}", *lists, **two)
        yield streamed(f"two calls with {what} and no ids", *([{**part, "id": None}] for [part] in lists), **two)
    parts = cut(ARGUMENTS)
    yield streamed(
        "another id in each piece",
        *(
            [{"index": 0, "id": f"i{at}", "function": {"name": "find_rates" if not at else None, "arguments": part}}]
            for at, part in enumerate(parts)
        ),
        **one,
    )
    yield streamed(
        "another id and no index in each piece",
        *(
            [{"id": f"i{at}", "function": {"name": "find_rates" if not at else None, "arguments": part}}]
            for at, part in enumerate(parts)
        ),
        **one,
    )
    yield streamed(
        "id and name in each piece",
        *([{"index": 0, "id": "a", "function": {"name": "find_rates", "arguments": part}}] for part in parts),
        **one,
    )
    yield streamed(
        "a name in each piece and no id",
        *([{"index": 0, "function": {"name": "find_rates", "arguments": part}}] for part in parts),
        **one,
    )
    yield streamed(
        "another index in each piece",
        [{"index": 0, "id": "a", "function": {"name": "find_rates", "arguments": ""}}],
        *([{"index": at + 1, "function": {"arguments": part}}] for at, part in enumerate(parts)),
        **one,
    )
    yield streamed(
        "a name in pieces",
        [{"index": 0, "id": "a", "function": {"name": "find_"}}],
        [{"index": 0, "function": {"name": "rates"}}],
        [{"index": 0, "function": {"arguments": ARGUMENTS}}],
        **one,
    )
    yield streamed("an index that is a text", [first | {"index": "0"}], [second | {"index": "1"}], **two)
    yield streamed("an index from 1", [first | {"index": 1}], [second | {"index": 2}], **two)
    mixed: list[list[dict[str, Any]]] = [
        [{"index": at, "function": {"arguments": part}}]
        for pair in zip(cut(ARGUMENTS, 9), cut(OTHER_ARGUMENTS, 9), strict=False)
        for at, part in enumerate(pair)
    ]
    opened: list[list[dict[str, Any]]] = [
        [{"index": at, "id": f"i{at}", "function": {"name": name, "arguments": ""}}] for at, name in enumerate(NAMES)
    ]
    yield streamed("two calls whose pieces alternate", *opened, *mixed, **two)
    yield streamed("a call that the last piece repeats", [first | {"index": 0}], [first | {"index": 0}], **one)
    yield streamed(
        "the name before the id",
        [{"index": 0, "function": {"name": "find_rates"}}],
        [{"index": 0, "id": "a", "function": {"arguments": ARGUMENTS}}],
        **one,
    )


def thoughts() -> Iterator[Variation]:
    for name, written in {
        "think": f"<think>\nPassage [2]?\n</think>\n\n{TEXT}",
        "thinking": f"<thinking>Passage [2]?</thinking>{TEXT}",
        "think without an end tag's partner": f"Passage [2]? Hmm.\n</think>\n\n{TEXT}",
        "think without its beginning, as it often begins": f"Okay, the user wants the time [2].\n</think>\n\n{TEXT}",
        "two thoughts": f"<think>a</think>\n<think>b</think>\n{TEXT}",
        "an empty thought": f"<think>\n\n</think>\n\n{TEXT}",
        "thought": f"<thought>Passage [2]?</thought>\n{TEXT}",
        "reasoning": f"<reasoning>Passage [2]?</reasoning>\n{TEXT}",
        "think with an attribute": f'<think time="3">Passage [2]?</think>\n{TEXT}',
        "Magistral": f"[THINK]Passage [2]?[/THINK]{TEXT}",
        "Kimi": f"◁think▷Passage [2]?◁/think▷{TEXT}",
        "Command A": f"<|START_THINKING|>Passage [2]?<|END_THINKING|><|START_RESPONSE|>{TEXT}<|END_RESPONSE|>",
        "gpt-oss": f"<|channel|>analysis<|message|>Passage [2]?<|end|><|start|>assistant<|channel|>final<|message|>{TEXT}<|return|>",
        "gpt-oss without its marks": f"analysisPassage [2]? Yes.assistantfinal{TEXT}",
        "Seed": f"<seed:think>Passage [2]?</seed:think>{TEXT}",
        "OpenThinker": f"<|begin_of_thought|>Passage [2]?<|end_of_thought|>\n\n<|begin_of_solution|>{TEXT}<|end_of_solution|>",
        "Apertus": f"<|inner_prefix|>Passage [2]?<|inner_suffix|>{TEXT}",
        "MedGemma": f"<unused94>thought\nPassage [2]?<unused95>{TEXT}",
        "Granite": f"Here is my thought process: Passage [2]? Here is my response: {TEXT}",
        "think in capitals": f"<THINK>Passage [2]?</THINK>\n{TEXT}",
        "think within think": f"<think>One <think>Passage [2]?</think> and so on</think>\n{TEXT}",
        "think that names its own tag": f"<think>Is <think> a tag?</think>\n{TEXT}",
        "Open WebUI": f'<details type="reasoning" done="true">\n<summary>Thought</summary>\n> [2]?\n</details>\n{TEXT}',
        "GLM's box": f"<think></think>\n<|begin_of_box|>{TEXT}<|end_of_box|>",
        "gpt-oss with a mark that is left over": f"<|message|>{TEXT}",
        "gpt-oss without its marks, in small letters": f"analysispassage [2]? Yes.assistantfinal{TEXT}",
        "ReAct": f"Thought: Passage [2]?\nFinal Answer: {TEXT}",
        "think and answer": f"<think>Passage [2]?</think>\n<answer>{TEXT}</answer>",
    }.items():
        yield from in_text(f"thoughts of {name}", written)
    yield from in_text("a thought without an end", "<think>Passage [2] says", text="")
    for key in ("reasoning_content", "reasoning", "thinking"):
        yield from both(f"the field {key}", {key: "Passage [2]?", "content": TEXT}, returned={key: "Passage [2]?"})
    details = [{"type": "reasoning.text", "text": "Passage [2]?", "index": 0}]
    yield from both(
        "the field reasoning_details",
        {"reasoning_details": details, "content": TEXT},
        returned={"reasoning_details": details},
    )
    blocks = [{"type": "thinking", "thinking": "Passage [2]?", "signature": "abc"}]
    yield from both(
        "thinking blocks", {"thinking_blocks": blocks, "content": TEXT}, returned={"thinking_blocks": blocks}
    )
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Passage [2]?"}]},
        {"type": "text", "text": TEXT},
    ]
    yield from both("a thought among the parts", {"content": parts}, returned={"content": parts})
    yield from both(
        "nothing but a thought",
        {"content": "", "reasoning_content": TEXT},
        text="",
        returned={"reasoning_content": TEXT, "content": ""},
    )
    signed = call(extra_content={"google": {"thought_signature": "abc"}})
    yield from both("the signature of a call", {"content": None, "tool_calls": [signed]}, text=None, calls=[CALL])


def ends() -> Iterator[Variation]:
    for finish in ("stop", "end_turn", "eos", "STOP", "stop_sequence", "", None):
        yield from both(f"the end {finish!r}", {"content": TEXT}, finish=finish)
    for finish in ("length", "max_tokens", "MAX_TOKENS", "model_length"):
        yield from both(f"the end {finish!r}", {"content": TEXT}, finish=finish, is_cut=True)
    for finish in ("content_filter", "SAFETY", "refusal", "RECITATION"):
        yield from both(f"the end {finish!r}", {"content": TEXT}, finish=finish, error="answer_withheld")
    for finish in ("error", "abort", "insufficient_system_resource"):
        yield from both(f"the end {finish!r}", {"content": TEXT}, finish=finish, error="bad_answer")
    yield from both("a filter without a text", {"content": None}, finish="content_filter", error="answer_withheld")
    yield from both("a refusal", {"content": None, "refusal": "I can not do that."}, error="answer_withheld")
    for mark in (
        "<|im_end|>",
        "<|eot_id|>",
        "</s>",
        "<end_of_turn>\n",
        "<|endoftext|>",
        "<\uff5cend▁of▁sentence\uff5c>",
        "<|eom|>",
        "<|observation|>",
        "<turn|>",
        "[|endofturn|]",
        "<\uff5chy_place▁holder▁no▁2\uff5c>",
    ):
        yield from in_text(f"the mark {mark!r} at the end", TEXT + mark)
    for name, written in {
        "tags of thoughts in code": "Write:\n```xml\n<think>plan</think>\n```\nThen save.",
        "an end of thoughts in code": "Split it:\n```python\nwhole = plan</think>\n```\nThen save.",
        "an end of thoughts in a sentence": "The texts up to </think> are left out.",
        "a template in code": "A turn is:\n```\n<|im_start|>user\nHi<|im_end|>\n```\nThen it answers.",
        "marks of a template in a sentence": "It begins with `<|im_start|>user` and ends with `<|im_end|>` each time.",
    }.items():
        yield from in_text(name, written, text=written)
    yield from in_text("a turn of another one at the end", f"{TEXT}<\uff5cUser\uff5c>And then?")
    yield from in_text("a turn of the user at the end", f"{TEXT}<|im_end|>\n<|im_start|>user\nAnd then?")
    yield Variation("a stream that ends without a mark", stream({"content": TEXT}, end=""))
    yield Variation("a stream that breaks off", events(piece({"content": TEXT})), error="bad_answer")


def forms() -> Iterator[Variation]:
    yield from both(
        "content as parts", {"content": [{"type": "text", "text": TEXT[:9]}, {"type": "text", "text": TEXT[9:]}]}
    )
    yield from both("content as texts", {"content": [TEXT[:9], TEXT[9:]]})
    yield from both("content as an object", {"content": {"type": "text", "text": TEXT}})
    yield from both("content as a part of another name", {"content": [{"type": "output_text", "text": TEXT}]})
    yield from both("content that is null", {"content": None}, text=None)
    yield from both("white space around", {"content": f"\n\n {TEXT} \n"})
    yield from both("a line separator", {"content": "one\u2028two\u0085three"}, text="one\u2028two\u0085three")
    yield from both("letters of all kinds", {"content": "Grüße, 渡船 \U0001f600"}, text="Grüße, 渡船 \U0001f600")
    yield Variation("a role that is missing", whole({"content": TEXT}))
    yield Variation("usage that is missing", whole({"content": TEXT}, usage=None))
    yield Variation("usage of other names", whole({"content": TEXT}, usage={"input_tokens": 40, "output_tokens": 9}))
    yield Variation("an answer that is called a page", whole({"content": TEXT}), kind="text/html; charset=utf-8")
    yield Variation("an old completion", json.dumps({"choices": [{"text": TEXT, "finish_reason": "stop"}]}))
    yield Variation("an answer over several lines", json.dumps(json.loads(whole({"content": TEXT})), indent=2))
    yield Variation("an answer behind empty lines", "\n \n" + whole({"content": TEXT}))
    yield Variation("an answer behind a mark", "\ufeff" + whole({"content": TEXT}))
    yield Variation("an empty error beside the answer", whole({"content": TEXT}, error={"message": "", "code": None}))
    yield Variation(
        "two choices",
        json.dumps(
            {
                "choices": [
                    {"index": 0, "message": {"content": TEXT}, "finish_reason": "stop"},
                    {"index": 1, "message": {"content": "no"}},
                ]
            }
        ),
    )
    said = [piece({"role": "assistant", "content": TEXT}), piece({}, "stop")]
    yield Variation("choices that are null in a piece", events({"choices": None}, *said) + "data: [DONE]\n\n")
    yield Variation("a delta that is null", events(said[0], piece(None, "stop")))
    yield Variation("a piece without choices", events({"id": "c", "type": "ping"}, *said))
    yield Variation("filters first", events({"choices": [], "prompt_filter_results": []}, *said))
    yield Variation("comments", ": ping\n\n" + events(*said))
    yield Variation(
        "names of events",
        "".join(f"event: message\n{each}" for each in events(*said).splitlines(keepends=True) if each.strip()).replace(
            "\nevent", "\n\nevent"
        )
        + "\n",
    )
    yield Variation("data: twice", events(*said).replace("data: ", "data: data: "))
    yield Variation("an end in small letters", events(*said) + "data: [done]\n\n")
    yield Variation(
        "the text of what is spoken", whole({"content": None, "audio": {"id": "a", "data": "AA", "transcript": TEXT}})
    )
    yield Variation("line ends of Windows", events(*said).replace("\n", "\r\n"))
    yield Variation("line ends of old Macs", events(*said).replace("\n", "\r"))
    yield Variation("single line ends", events(*said).replace("\n\n", "\n"))
    yield Variation("no space after data:", events(*said).replace("data: ", "data:"))
    yield Variation("objects, one a line", "\n".join(map(json.dumps, said)))
    yield Variation(
        "a last piece that repeats all",
        events(
            said[0], {"choices": [{"index": 0, "delta": {}, "message": {"content": TEXT}, "finish_reason": "stop"}]}
        ),
    )
    yield Variation(
        "messages in the place of deltas",
        events({"choices": [{"index": 0, "message": {"content": TEXT}, "finish_reason": "stop"}]}),
    )
    yield Variation(
        "usage in the choice",
        events(said[0], {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}]}),
    )


def errors() -> Iterator[Variation]:
    def refusal(name: str, status: int, body: Any, error: str, kind: str = "") -> Variation:
        return Variation(
            name, body if isinstance(body, str) else json.dumps(body), error=error, status=status, kind=kind
        )

    page = "<!DOCTYPE html><html><body>Welcome</body></html>"
    words = {"error": {"message": "Rate limit: Request too large for the context window. Invalid API key. Timeout."}}
    for status, error in {
        400: "text_refused",
        401: "provider_auth",
        402: "provider_quota",
        403: "provider_auth",
        404: "provider_4xx",
        408: "provider_timeout",
        413: "text_refused",
        422: "text_refused",
        429: "provider_429",
        500: "provider_5xx",
        502: "provider_5xx",
        503: "provider_5xx",
        504: "provider_timeout",
        529: "provider_5xx",
    }.items():
        yield refusal(f"{status} with words of other errors", status, words, error)
        yield refusal(f"{status} without words", status, "", "provider_incompatible" if status == 404 else error)
    yield refusal(
        "429 because of the quota", 429, {"error": {"code": "insufficient_quota", "message": "x"}}, "provider_quota"
    )
    yield refusal(
        "404 of a model", 404, {"error": {"code": "model_not_found", "message": "no such model"}}, "provider_4xx"
    )
    yield refusal(
        "400 of Google for a key",
        400,
        [{"error": {"code": 400, "message": "x", "details": [{"reason": "API_KEY_INVALID"}]}}],
        "provider_auth",
    )
    for code in ("tool_use_failed", "json_validate_failed"):
        answered = {"error": {"message": "Failed to call a function", "code": code, "failed_generation": "<function="}}
        yield refusal(f"400 of Groq, {code}", 400, answered, "bad_answer")
    yield refusal("404 of a path", 404, {"detail": "Not Found"}, "provider_incompatible")
    yield refusal(
        "404 of a path of OpenAI",
        404,
        {"error": {"message": "Invalid URL (POST /chat/completions)"}},
        "provider_incompatible",
    )
    yield refusal("404 in words", 404, "404 page not found", "provider_incompatible")
    yield refusal("405", 405, {"detail": "Method Not Allowed"}, "provider_incompatible")
    yield refusal("a redirect", 308, "", "provider_incompatible")
    yield refusal("a web page", 200, page, "provider_incompatible", "text/html")
    yield refusal("a web page that is called JSON", 200, page, "provider_incompatible")
    yield refusal("a web page of 400", 400, page, "provider_incompatible")
    yield refusal("a web page of 502", 502, page, "provider_5xx")
    yield refusal(
        "an answer of another API", 200, {"model": "m", "done": True, "response": TEXT}, "provider_incompatible"
    )
    yield refusal(
        "an answer of Ollama's own API",
        200,
        {"model": "m", "message": {"role": "assistant", "content": TEXT}, "done": True},
        "provider_incompatible",
    )
    yield refusal("an empty object", 200, {}, "bad_answer")
    yield refusal("nothing", 200, "", "bad_answer")
    yield refusal("words", 200, "upstream connect error", "bad_answer")
    yield refusal("half an answer", 200, whole({"content": TEXT})[:80], "bad_answer")
    yield refusal("a list", 200, "[]", "provider_incompatible")
    yield refusal("no choices", 200, {"choices": []}, "bad_answer")
    yield refusal("an error with the status 200", 200, {"error": {"message": "x"}}, "bad_answer")
    yield refusal("an error of 429 with the status 200", 200, {"error": {"message": "x", "code": 429}}, "provider_429")
    yield refusal(
        "an error of 400 with the status 200", 200, {"error": {"message": "x", "code": "400"}}, "text_refused"
    )
    yield refusal(
        "an error with a code and the status 200",
        200,
        {"error": {"message": "x", "type": "server_error"}},
        "provider_5xx",
    )
    yield refusal("an error that is a text", 200, {"error": "model is loading"}, "bad_answer")
    yield refusal(
        "an error of vLLM with the status 200", 200, {"object": "error", "message": "x", "code": 400}, "text_refused"
    )
    yield refusal(
        "an error of MiniMax with the status 200",
        200,
        {"base_resp": {"status_code": 1004, "status_msg": "x"}},
        "bad_answer",
    )
    yield refusal(
        "an error in a stream",
        200,
        events(piece({"content": "The"}), {"error": {"message": "x", "code": 500}}),
        "provider_5xx",
    )
    for name, said in {
        "vLLM": {"object": "error", "message": "x", "code": 500},
        "a gateway": {"type": "error", "message": "x", "code": 500},
    }.items():
        pieces = events(piece({"content": "The"}), said) + "data: [DONE]\n\n"
        yield refusal(f"an error of {name} in a stream", 200, pieces, "provider_5xx")
    pieces = events(piece({"content": "The"}), {"choices": None, "base_resp": {"status_code": 1000}})
    yield refusal("an error of MiniMax in a stream", 200, pieces + "data: [DONE]\n\n", "bad_answer")
    yield Variation("the status of MiniMax", whole({"content": TEXT}, base_resp={"status_code": 0, "status_msg": ""}))
    yield refusal("an event of an error", 200, 'event: error\ndata: {"message": "x"}\n\n', "bad_answer")
    yield refusal(
        "an error in the choice of a whole answer",
        200,
        {"choices": [{"index": 0, "message": {"content": ""}, "finish_reason": None, "error": {"code": 502}}]},
        "bad_answer",
    )
    yield refusal(
        "an error in a choice",
        200,
        events({"choices": [{"index": 0, "delta": {}, "finish_reason": "error", "error": {"code": 502}}]}),
        "bad_answer",
    )


def all_variations() -> list[Variation]:
    groups = (calls_in_text, calls, calls_in_pieces, thoughts, ends, forms, errors)
    return [variation for group in groups for variation in group()]
