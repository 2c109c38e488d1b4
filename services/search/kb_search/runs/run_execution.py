"""Executes one run: ask the model, make its calls, ask again, until it answers or a budget is used up.

`loop` decides the next action. This file performs it: it calls the model and the tools, sends the events, and keeps
what the run is stored with.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from kb_contracts.api.runs import Grounded
from kb_search.runs import loop
from kb_search.runs.addresses import KnownAddresses, find_addresses
from kb_search.runs.answer_schema import find_violations
from kb_search.runs.auto_search import plan_auto_search
from kb_search.runs.citations import Citations, resolve_citations
from kb_search.runs.clean_answers import AnswerStreamCleaner, clean_text
from kb_search.runs.events import SendEvent, discard_event
from kb_search.runs.inject_knowledge import KnowledgeInjector
from kb_search.runs.injected_message import RunValues, build_injected_message
from kb_search.runs.json_path import select_path
from kb_search.runs.json_strings import Clean, JsonStreamCleaner, clean_json
from kb_search.runs.loop import AskModel, CallTools, ModelAnswered, Repair, RunState, StopRun, UnusableAnswer
from kb_search.runs.plan import Plan, SearchFindings
from kb_search.runs.prompt import AFTER_SEARCH
from kb_search.runs.run_errors import invalid_answer, run_budget_exhausted
from kb_search.runs.run_tools import RunTools, ToolResult
from kb_search.store.runs import Run, RunStatus, StoredCitation
from kb_shared.chat.chat import Chat, was_paid_for
from kb_shared.chat.completion import Completion, CompletionRequest, ToolCall, without_thoughts
from kb_shared.chat.outgoing_messages import join_neighbours
from kb_shared.chat.provider import broken_off, estimate_message_tokens, token_counts
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.concurrency.fair_queue import pause_turn
from kb_shared.errors import RequestError
from kb_shared.mongo.stored_time import now
from kb_shared.observability import spans, tracing
from kb_shared.observability.tracing import TraceSpan

_TOO_MANY_CALLS: Final = f"Not made: at most {loop.MAX_CALLS_AT_ONCE} calls at once are allowed."


class RunExecution:
    """One run while it is executed."""

    def __init__(
        self, plan: Plan, chat: Chat, *, tools: RunTools, injector: KnowledgeInjector | None, send_event: SendEvent
    ) -> None:
        self.run = plan.begin_run()
        self._plan = plan
        self._chat = chat
        self._send_event = send_event
        self._tools = tools
        self._injector = injector
        self._injections: list[dict[str, Any]] = []
        self._injected_addresses: frozenset[str] = frozenset()
        self._found = ""
        self._last_result: ToolResult | None = None
        self._tool_schemas = [tool.describe() for tool in plan.tools]
        messages = plan.messages()
        self._question_at = len(messages) - 1
        self._state = RunState(messages, plan.schema, tools=[tool.name for tool in plan.tools])
        self._calls: list[dict[str, Any]] = []
        self._answer: str | None = None
        self._citations = Citations([], 0)
        self._started_at = asyncio.get_running_loop().time()

    async def converse(self) -> None:
        """Exchange messages with the model until there is an answer.

        Raises:
            RequestError: A budget is used up, or the answer is unusable.
            KbError: The model can't be called.
        """
        await self._send_event("run.started", {"run_id": self.run.run_id, "model": self.run.model})
        try:
            async with asyncio.timeout(self._plan.limits.max_seconds):
                if self._plan.auto_search:
                    await self._search_with_question()
                while self._answer is None:
                    await self._step()
        except TimeoutError:
            raise run_budget_exhausted("max_seconds") from None

    async def _search_with_question(self) -> None:
        """Search with the question, and begin the conversation with what was found. The model gets no tools then.

        A small model that has passages and tools writes a call, and not an answer.
        """
        calls = plan_auto_search(self._plan.questions, self._plan.tools)
        if not calls:
            return
        results = [content for _, content in await self._call_tools(CallTools(calls))]
        passages = self._tools.passages.all()
        found = SearchFindings(results, example=passages[0].number if passages else None)
        self._last_result = None
        if self._injector is None:
            messages = self._plan.messages(found)
        else:
            # The template says where the passages stand.
            messages, self._found = self._plan.messages(), "\n".join(self._plan.describe_search(found))
        self._state = loop.begin_again(self._state, messages)

    @property
    def _must_search(self) -> bool:
        """Return whether an answer does not count, because the model could have searched and has not."""
        can_call = bool(self._state.tools) and self._state.may_call
        return (
            can_call
            and self._tools.has_spus
            and not self._tools.has_searched
            and bool(plan_auto_search(self._plan.questions, self._plan.tools))
        )

    async def _inject(self, injector: KnowledgeInjector) -> None:
        """Put the filled template in the place of the question."""
        source, question = self._plan.injection, str(self._plan.question[-1]["content"])
        assert source is not None, "there is an injector for a plan with an injection only"
        pieces = await injector.retrieve(question)
        last, memory = self._last_result, source.injection.memory
        given = RunValues(question, variables=source.variables, attachments=source.attachments)
        values = replace(
            given,
            found=self._found,
            action_result="" if last is None else last.content,
            action_memory="" if last is None or memory is None else select_path(last.fields, memory),
        )
        build = partial(build_injected_message, source.injection, pieces=pieces, delimiter=self._plan.delimiter)
        text = build(values)
        # Addresses of passages count as such, although the template quotes them.
        self._injected_addresses |= find_addresses([build(given)])
        messages = list(self._state.messages)
        messages[self._question_at] = {"role": "user", "content": text}
        self._state = replace(self._state, messages=messages)
        if not self._injections or self._injections[-1]["text"] != text:
            piece_ids = [piece.piece_id for piece in pieces.result.pieces]
            self._injections.append({"iteration": self._state.iterations + 1, "text": text, "piece_ids": piece_ids})

    def build_run(self, status: RunStatus, failure: RequestError | None) -> Run:
        """Build the run to store at its end."""
        citations = self._citations
        state = self._state
        return replace(
            self.run,
            status=status,
            finished_at=now(),
            answer=self._answer,
            error={"type": failure.slug, "detail": failure.detail, **failure.extra} if failure else None,
            messages=[without_thoughts(message) for message in join_neighbours(state.messages)],
            tool_calls=self._calls,
            injections=self._injections,
            citations=tuple(StoredCitation(**passage.stored_fields()) for passage in citations.passages),
            dropped_citations=citations.dropped,
            grounded=self._grounded() if status is RunStatus.COMPLETED else None,
            iterations=state.iterations,
            prompt_tokens=state.prompt_tokens,
            completion_tokens=state.completion_tokens,
            cost_usd=state.cost_usd,
            spus=self._tools.spus,
        )

    def _grounded(self) -> Grounded:
        if self._citations.passages:
            return "cited"
        injected = any(injection["piece_ids"] for injection in self._injections)
        received = bool(self._tools.passages.all()) or self._plan.document is not None or injected
        return "received" if received else "none"

    async def _step(self) -> None:
        if self._injector is not None:
            await self._inject(self._injector)
        action = loop.decide_request(
            self._state,
            self._plan.limits,
            elapsed_s=self._elapsed_s,
            next_prompt_tokens=estimate_message_tokens([*self._state.messages, *self._tool_schemas]),
        )
        if isinstance(action, StopRun):
            raise run_budget_exhausted(action.limit, action.tokens_before_answer)
        must_search = self._must_search
        attributes = {"kb.iteration": self._state.iterations + 1, "kb.with_tools": action.with_tools}
        with tracing.span(spans.RUN_TURN, attributes) as span:
            completion = await self._ask_model(action, is_shown=not must_search)
            span.set(token_counts(completion))
            self._state, next_action = await self._process_completion(completion, action)
        match next_action:
            case CallTools():
                results = await self._call_tools(next_action)
                self._state = loop.add_tool_results(self._state, results, note=AFTER_SEARCH)
            case ModelAnswered() | Repair() if must_search:
                await self._search_with_question()
            case ModelAnswered(text):
                await self._accept_answer(text)
            case UnusableAnswer(text, problems):
                clean = self._text_cleaner()
                # Text that should be JSON but is not can contain addresses outside of strings.
                cleaned = clean(clean_json(text, clean) if self._is_json else text)
                # The problems quote the answer.
                raise invalid_answer(cleaned, list(map(clean, problems)))

    async def _ask_model(self, action: AskModel, *, is_shown: bool) -> Completion:
        """Ask the model; its answer is streamed to the caller only if it `is_shown`."""
        plan = self._plan
        request = CompletionRequest(
            join_neighbours(self._state.messages),
            tools=self._tool_schemas if action.with_tools else (),
            # A server that constrains answers to the schema would not let the model call a tool.
            schema=None if action.with_tools else plan.schema,
            max_completion_tokens=action.max_completion_tokens,
            temperature=plan.temperature,
        )

        received: list[str] = []
        cleaner = self._piece_cleaner()

        async def send_delta(text: str) -> None:
            if text and is_shown:
                await self._send_event("answer.delta", {"iteration": self._state.iterations + 1, "text": text})

        async def on_text(text: str) -> None:
            received.append(text)
            await send_delta(text if cleaner is None else cleaner.feed(text))

        # Streaming costs more, so the answer is streamed only if the caller gets the events.
        listener = None if self._send_event is discard_event else on_text
        model = self._plan.model
        try:
            async with pause_turn():
                completion = await self._chat.complete(
                    self._plan.organization_id, request, model=model, on_text=listener
                )
        except BaseException as error:
            # Also when the caller has disconnected, or when the time of the run is up.
            if received or was_paid_for(error):
                self._state = loop.count_interrupted(self._state, broken_off("".join(received), request, model))
            raise
        if cleaner is not None:
            await send_delta(cleaner.end())
        return completion

    def _text_cleaner(self) -> Clean:
        """Return the function that removes foreign addresses and unknown citations from a text of the answer."""
        return partial(clean_text, citable=self._tools.passages.citable(), addresses=self._known_addresses())

    def _piece_cleaner(self) -> AnswerStreamCleaner | JsonStreamCleaner | None:
        """Return the cleaner of a streamed answer; None if its pieces are passed on unchanged."""
        if not self._is_json:
            return AnswerStreamCleaner(self._tools.passages.citable(), self._known_addresses())
        return JsonStreamCleaner(self._text_cleaner()) if self._plan.clean_strings else None

    async def _process_completion(
        self, completion: Completion, action: AskModel
    ) -> tuple[RunState, loop.AfterCompletion]:
        try:
            # In a thread, because checking an answer against a schema can take seconds on a slow machine.
            return await asyncio.to_thread(
                loop.process_completion, self._state, completion, with_tools=action.with_tools
            )
        except BaseException:
            # The completion was paid for, even if the caller has left.
            self._state = loop.count_interrupted(self._state, completion)
            raise

    async def _call_tools(self, action: CallTools) -> Sequence[tuple[ToolCall, str]]:
        for call in action.calls:
            called = {"call_id": call.call_id, "tool": call.name, "arguments": call.arguments}
            await self._send_event("tool.called", called)
        results = await run_all_or_cancel(self._call_tool(call) for call in action.calls)
        return [*zip(action.calls, results, strict=True), *((call, _TOO_MANY_CALLS) for call in action.too_many)]

    async def _call_tool(self, call: ToolCall) -> str:
        started_at = asyncio.get_running_loop().time()
        with tracing.span(spans.TOOL_CALL, {"gen_ai.operation.name": "execute_tool"}) as span:
            result = await self._tools.call(call)
            self._describe_call(span, call, result)
        self._last_result = result
        record = _record_of_call(call, result, duration_s=asyncio.get_running_loop().time() - started_at)
        self._calls.append(record)
        for passage in result.passages:
            await self._send_event("passage", {"call_id": call.call_id, **passage.as_citation()})
        await self._send_event("tool.returned", record)
        return result.content

    def _describe_call(self, span: TraceSpan, call: ToolCall, result: ToolResult) -> None:
        # A model may name a tool that there is none of, with any text.
        if any(tool.name == call.name for tool in self._plan.tools):
            span.set({"gen_ai.tool.name": call.name})
        span.set({"kb.passages": len(result.passages), "kb.from_memory": result.from_memory, "kb.spus": result.spus})
        if result.problem is not None:
            span.fail("tool_error")

    async def _accept_answer(self, text: str) -> None:
        self._citations = resolve_citations(text, self._tools.passages, is_json=self._is_json)
        if self._plan.schema is None:
            self._answer = self._text_cleaner()(text)
        else:
            self._answer = await self._clean_json(text, self._plan.schema)
        for passage in self._citations.passages:
            await self._send_event("citation", passage.as_citation())

    async def _clean_json(self, text: str, schema: Mapping[str, Any]) -> str:
        """Return the answer with clean strings. Raises RequestError if the clean answer violates the schema."""
        if not self._plan.clean_strings:
            return text
        clean = clean_json(text, self._text_cleaner())
        if clean != text and (problems := await asyncio.to_thread(find_violations, clean, schema)):
            raise invalid_answer(clean, problems)
        return clean

    @property
    def _is_json(self) -> bool:
        return self._plan.schema is not None

    def _known_addresses(self) -> KnownAddresses:
        given = find_addresses(self._plan.texts()) | self._injected_addresses
        of_passages = {number: find_addresses(texts) for number, texts in self._tools.passages.texts().items()}
        if self._is_json:
            # The caller asks for fields such as `url`, which have no place for a citation.
            return KnownAddresses(given.union(*of_passages.values()))
        return KnownAddresses(given, of_passages)

    @property
    def _elapsed_s(self) -> float:
        return asyncio.get_running_loop().time() - self._started_at


def _record_of_call(call: ToolCall, result: ToolResult, *, duration_s: float) -> dict[str, Any]:
    return {
        "call_id": call.call_id,
        "tool": call.name,
        "arguments": call.arguments,
        "passages": [passage.as_citation() for passage in result.passages],
        "omitted_count": result.omitted_count,
        "problem": result.problem,
        "from_memory": result.from_memory,
        "spus": result.spus,
        "duration_ms": round(duration_s * 1000, 1),
    }
