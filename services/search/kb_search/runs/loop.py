"""What a run does next: state in, action out. No clock, no client.

A model is asked, its calls are made, and it is asked again with what they returned, until it answers without a call.
After `max_iterations` it is asked once more without tools, and has to answer. An answer that is empty, cut off or
against the schema is sent back once, with what is wrong.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from kb_search.runs.answer_schema import violations
from kb_shared.chat.completion import Completion, Message, ToolCall

MAX_CALLS_AT_ONCE: Final = 16

_CUT: Final = "the answer is too long and was cut off: answer in fewer words"

Stop: TypeAlias = Literal["max_tokens", "max_seconds"]


@dataclass(frozen=True, slots=True)
class RunBudget:
    """Limits of one run."""

    max_iterations: int
    """Times that the model is asked with tools."""
    max_tokens: int
    """Tokens of all prompts and completions together."""
    max_spus: int
    max_seconds: float


@dataclass(frozen=True, slots=True)
class RunState:
    messages: Sequence[Message]
    schema: Mapping[str, Any] | None = None
    has_tools: bool = True
    iterations: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    """None once something was done whose price is not known."""
    call_ids: frozenset[str] = frozenset()
    """Call ids that were used in this run."""
    is_repair: bool = False
    """The last answer was sent back."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Ask:
    """The model, with all messages."""

    with_tools: bool
    max_completion_tokens: int
    """Tokens that the budget has left for the answer."""


@dataclass(frozen=True, slots=True)
class StopRun:
    """Nothing more: the budget is spent and there is no answer."""

    stop: Stop


@dataclass(frozen=True, slots=True)
class CallTools:
    calls: Sequence[ToolCall]
    """Each with an id of its own."""
    too_many: Sequence[ToolCall] = ()
    """To be told so instead of being made."""


@dataclass(frozen=True, slots=True)
class ModelAnswered:
    text: str


@dataclass(frozen=True, slots=True)
class Unusable:
    """The last answer, after the model had its chance to fix it."""

    text: str
    violations: Sequence[str]


@dataclass(frozen=True, slots=True)
class Repair:
    """Ask again; the messages say what was wrong."""


Heard: TypeAlias = CallTools | ModelAnswered | Repair | Unusable


def to_ask(state: RunState, budget: RunBudget, *, elapsed_s: float, next_prompt_tokens: int) -> Ask | StopRun:
    """Decide before the model is asked.

    Args:
        state: of the run.
        budget: of the run.
        elapsed_s: since it began.
        next_prompt_tokens: of all messages, estimated.
    """
    if elapsed_s >= budget.max_seconds:
        return StopRun("max_seconds")
    left = budget.max_tokens - state.tokens - next_prompt_tokens
    if left < 1:
        return StopRun("max_tokens")
    with_tools = state.has_tools and not state.is_repair and state.iterations < budget.max_iterations
    return Ask(with_tools, max_completion_tokens=left)


def heard(state: RunState, completion: Completion, *, with_tools: bool) -> tuple[RunState, Heard]:
    """Take in what the model said, and decide what becomes of it. With a schema it can take `MAX_CPU_S`."""
    state = _counted(state, completion)
    if with_tools and completion.tool_calls:
        return _with_calls(state, completion)
    text = completion.text or ""
    wrong = [_CUT] if completion.is_cut else _what_is_wrong(text, state.schema)
    if not wrong:
        return replace(state, messages=[*state.messages, {"role": "assistant", "content": text}]), ModelAnswered(text)
    if state.is_repair:
        return state, Unusable(text, wrong)
    said: list[Message] = [{"role": "assistant", "content": text}] if text else []
    again: Message = {"role": "user", "content": _sent_back(wrong)}
    return replace(state, messages=[*state.messages, *said, again], is_repair=True), Repair()


def broke_off(state: RunState, completion: Completion) -> RunState:
    """Count an answer that ended in its middle: it was paid for."""
    return _counted(state, completion)


def returned(state: RunState, results: Sequence[tuple[ToolCall, str]]) -> RunState:
    """Add what the calls returned: one message each, in their order."""
    said: list[Message] = [
        {"role": "tool", "tool_call_id": call.call_id, "content": content} for call, content in results
    ]
    return replace(state, messages=[*state.messages, *said])


def _counted(state: RunState, completion: Completion) -> RunState:
    known = state.cost_usd is not None and completion.cost_usd is not None
    return replace(
        state,
        iterations=state.iterations + 1,
        prompt_tokens=state.prompt_tokens + completion.prompt_tokens,
        completion_tokens=state.completion_tokens + completion.completion_tokens,
        cost_usd=(state.cost_usd or 0.0) + (completion.cost_usd or 0.0) if known else None,
    )


def _with_calls(state: RunState, completion: Completion) -> tuple[RunState, CallTools]:
    calls: list[ToolCall] = []
    taken = set(state.call_ids)
    for call in completion.tool_calls:
        # A result is matched by its id: one that is missing or given twice would answer the wrong call.
        call_id = call.call_id if call.call_id and call.call_id not in taken else _fresh(taken)
        taken.add(call_id)
        calls.append(replace(call, call_id=call_id))
    message: Message = {
        "role": "assistant",
        "content": completion.text,
        "tool_calls": [
            {"id": each.call_id, "type": "function", "function": {"name": each.name, "arguments": each.arguments}}
            for each in calls
        ],
    }
    state = replace(state, messages=[*state.messages, message], call_ids=frozenset(taken))
    return state, CallTools(calls[:MAX_CALLS_AT_ONCE], calls[MAX_CALLS_AT_ONCE:])


def _fresh(taken: set[str]) -> str:
    number = len(taken) + 1
    while f"run_call_{number}" in taken:
        number += 1
    return f"run_call_{number}"


def _what_is_wrong(text: str, schema: Mapping[str, Any] | None) -> Sequence[str]:
    if not text.strip():
        return ["the answer is empty"]
    return violations(text, schema) if schema is not None else []


def _sent_back(wrong: Sequence[str]) -> str:
    return "Your answer can't be used: " + "; ".join(wrong) + ". Answer again, with the whole answer and nothing else."
