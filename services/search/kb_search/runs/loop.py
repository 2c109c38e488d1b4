"""Decides the next action of a run: state in, action out. No clock, no client.

The cases, in order:

1. Before each request (`decide_request`): if the time or the tokens are used up, the run stops. Otherwise the model is
   asked, with tools for the first `max_iterations` requests, without them after that.
2. The completion (`process_completion`) contains calls of tools: they are made, and the model is asked again with their
   results (`add_tool_results`).
3. It contains an answer. If the answer is empty, cut off or violates the schema, it is sent back once, with what is
   wrong, and the model is asked again without tools. A second unusable answer ends the run.

Example with `max_iterations=2`: ask with tools, calls, ask with tools, calls, ask without tools, answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from kb_search.runs.answer_schema import find_violations
from kb_search.runs.written_answers import has_only_marks, is_written_call, without_fence
from kb_shared.chat.completion import Completion, Message, ToolCall

MAX_CALLS_AT_ONCE: Final = 16

_CUT: Final = "the answer is too long and was cut off: answer in fewer words"
_NO_ANSWER: Final = (
    "it is a call of a tool, and there are no tools now: answer the question in words, from what was found"
)
_ONLY_MARKS: Final = "it has no words, only numbers of passages: answer the question in words"
_MAX_SENT_BACK: Final = 2_000
"""Characters of an answer that was cut off which the model is shown."""

RunLimit: TypeAlias = Literal["max_tokens", "max_seconds"]


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of one run."""

    max_iterations: int
    """Number of times that the model is asked with tools."""
    max_tokens: int
    """Number of tokens of all prompts and completions together."""
    max_spus: int
    max_seconds: float
    max_output_tokens: int | None = None
    """Number of tokens of one answer; None: as many as the budget has left."""


@dataclass(frozen=True, slots=True)
class RunState:
    """State of a run between two actions."""

    messages: Sequence[Message]
    schema: Mapping[str, Any] | None = None
    tools: Sequence[str] = ()
    """Names of the tools of the run."""
    may_call: bool = True
    """False if the run searches for the model, which gets no tools then."""
    iterations: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    """Cost so far; None if a price is not known."""
    call_ids: frozenset[str] = frozenset()
    """Ids of the calls of this run so far."""
    is_repair: bool = False
    """True if an answer was sent back."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class AskModel:
    """Ask the model, with all messages."""

    with_tools: bool
    max_completion_tokens: int
    """Number of tokens that the budget has left for the answer."""


@dataclass(frozen=True, slots=True)
class StopRun:
    """Stop without an answer, because a limit of the budget is reached."""

    limit: RunLimit
    tokens_before_answer: int | None = None
    """Tokens that were used and that the next prompt has by estimate; None for other limits."""


@dataclass(frozen=True, slots=True)
class CallTools:
    """Make the calls that the model asked for."""

    calls: Sequence[ToolCall]
    """Calls to make, each with a unique id."""
    too_many: Sequence[ToolCall] = ()
    """Calls above the limit. They are not made; the model is told so."""


@dataclass(frozen=True, slots=True)
class ModelAnswered:
    """End the run with this answer."""

    text: str


@dataclass(frozen=True, slots=True)
class UnusableAnswer:
    """End the run with an error: the answer is unusable, although the model was asked to correct it."""

    text: str
    violations: Sequence[str]


@dataclass(frozen=True, slots=True)
class Repair:
    """Ask the model again; the messages say what was wrong with its answer."""


AfterCompletion: TypeAlias = CallTools | ModelAnswered | Repair | UnusableAnswer


def decide_request(
    state: RunState, limits: RunLimits, *, elapsed_s: float, next_prompt_tokens: int
) -> AskModel | StopRun:
    """Decide whether the model is asked once more, and with what.

    Args:
        state: State of the run.
        limits: Limits of the run.
        elapsed_s: Seconds since the run began.
        next_prompt_tokens: Estimated number of tokens of all messages.
    """
    if elapsed_s >= limits.max_seconds:
        return StopRun("max_seconds")
    left = limits.max_tokens - state.tokens - next_prompt_tokens
    if left < 1:
        return StopRun("max_tokens", tokens_before_answer=state.tokens + next_prompt_tokens)
    with_tools = (
        bool(state.tools) and state.may_call and not state.is_repair and state.iterations < limits.max_iterations
    )
    return AskModel(with_tools, max_completion_tokens=min(left, limits.max_output_tokens or left))


def process_completion(
    state: RunState, completion: Completion, *, with_tools: bool
) -> tuple[RunState, AfterCompletion]:
    """Add a completion to the state and decide the next action. With a schema it can take seconds on a slow machine."""
    state = _count_usage(state, completion)
    if with_tools and completion.tool_calls:
        return _add_calls(state, completion)
    text = completion.text or ""
    if state.schema is not None:
        text = without_fence(text)
    problems = [_CUT] if completion.is_cut else _find_problems(text, state)
    if not problems:
        return replace(state, messages=[*state.messages, {"role": "assistant", "content": text}]), ModelAnswered(text)
    if state.is_repair:
        return state, UnusableAnswer(text, problems)
    # What was cut off is shown in part: a model may have written until its context was full.
    shown = text if len(text) <= _MAX_SENT_BACK or not completion.is_cut else f"{text[:_MAX_SENT_BACK]} ..."
    answer: list[Message] = [{"role": "assistant", "content": shown}] if text else []
    request: Message = {"role": "user", "content": _repair_request(problems)}
    return replace(state, messages=[*state.messages, *answer, request], is_repair=True), Repair()


def count_interrupted(state: RunState, completion: Completion) -> RunState:
    """Count the tokens and the cost of a completion that was interrupted: it was paid for."""
    return _count_usage(state, completion)


def add_tool_results(state: RunState, results: Sequence[tuple[ToolCall, str]], *, note: str = "") -> RunState:
    """Add the results of the calls: one message each, in their order, and the `note` behind the last one."""
    last = len(results) - 1
    messages: list[Message] = [
        {"role": "tool", "tool_call_id": call.call_id, "content": f"{content}\n{note}" if number == last else content}
        for number, (call, content) in enumerate(results)
    ]
    return replace(state, messages=[*state.messages, *messages])


def begin_again(state: RunState, messages: Sequence[Message]) -> RunState:
    """Return the state of a conversation that begins with other messages, without tools; what was used up counts."""
    return replace(state, messages=messages, may_call=False, is_repair=False)


def _count_usage(state: RunState, completion: Completion) -> RunState:
    known = state.cost_usd is not None and completion.cost_usd is not None
    return replace(
        state,
        iterations=state.iterations + 1,
        prompt_tokens=state.prompt_tokens + completion.prompt_tokens,
        completion_tokens=state.completion_tokens + completion.completion_tokens,
        cost_usd=(state.cost_usd or 0.0) + (completion.cost_usd or 0.0) if known else None,
    )


def _add_calls(state: RunState, completion: Completion) -> tuple[RunState, CallTools]:
    calls: list[ToolCall] = []
    taken = set(state.call_ids)
    for call in completion.tool_calls:
        # The model finds the result of a call by its id, so a missing or repeated id is replaced.
        call_id = call.call_id if call.call_id and call.call_id not in taken else _new_call_id(taken)
        taken.add(call_id)
        calls.append(replace(call, call_id=call_id))
    message: Message = {
        "role": "assistant",
        "content": completion.text,
        "tool_calls": [
            {
                "id": each.call_id,
                "type": "function",
                "function": {"name": each.name, "arguments": each.arguments},
                **each.extra,
            }
            for each in calls
        ],
        **completion.returned,
    }
    state = replace(state, messages=[*state.messages, message], call_ids=frozenset(taken))
    return state, CallTools(calls[:MAX_CALLS_AT_ONCE], calls[MAX_CALLS_AT_ONCE:])


def _new_call_id(taken: set[str]) -> str:
    """Return an id of nine letters and digits: the templates of some models take no other."""
    number = len(taken) + 1
    while (call_id := f"call{number:05}") in taken:
        number += 1
    return call_id


def _find_problems(text: str, state: RunState) -> Sequence[str]:
    if not text.strip():
        return ["the answer is empty"]
    if state.schema is not None:
        return find_violations(text, state.schema)
    if is_written_call(text, state.tools):
        return [_NO_ANSWER]
    # A model that says nothing else when asked again means it.
    return [_ONLY_MARKS] if has_only_marks(text) and not state.is_repair else []


def _repair_request(problems: Sequence[str]) -> str:
    return "Your answer can't be used: " + "; ".join(problems) + ". Answer again: the complete answer and nothing else."
