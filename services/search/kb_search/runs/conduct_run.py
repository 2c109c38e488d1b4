"""The story of a run: ask the model, make its calls, ask again, until it answers or a budget ends it; then keep it all.

What is next is decided in `loop`; here it is done, told and stored.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar

import structlog
from pymongo.errors import PyMongoError

from kb_search.retrieval.query import Asker
from kb_search.retrieval.search_knowledge_base import KnowledgeBaseSearch
from kb_search.runs import loop
from kb_search.runs.addresses import addresses_in
from kb_search.runs.answer_schema import violations
from kb_search.runs.citations import Citations, citations_of
from kb_search.runs.clean_answers import CleanPieces, clean_text
from kb_search.runs.events import Tell, tell_nobody
from kb_search.runs.json_strings import Clean, CleanJsonPieces, clean_json
from kb_search.runs.loop import Ask, CallTools, ModelAnswered, RunState, StopRun, Unusable
from kb_search.runs.plan import Plan
from kb_search.runs.run_tools import Returned, RunTools
from kb_search.store import runs
from kb_search.store.runs import Run, Status
from kb_shared.chat.chat import Chat, was_paid_for
from kb_shared.chat.completion import Completion, Question, ToolCall
from kb_shared.chat.provider import broken_off, estimated_tokens
from kb_shared.concurrency.fair_queue import FairQueue, turn_set_aside
from kb_shared.errors import (
    BatchRefused,
    BudgetExhausted,
    KbError,
    Parked,
    ProviderRefused,
    ProviderUnavailable,
    RequestError,
    TransientError,
    UnknownModel,
    UnknownPrice,
)
from kb_shared.http.problems import as_request_error
from kb_shared.mongo.database import Database
from kb_shared.observability.metrics import RUN_SECONDS, RUNS
from kb_shared.stored_time import now

_RETRY_AFTER_S: Final = 5.0
_TOO_MANY: Final = f"Not made: at most {loop.MAX_CALLS_AT_ONCE} calls at once."

T = TypeVar("T")

log = structlog.get_logger()


class Conductor:
    """Conducts runs; made once a process."""

    def __init__(
        self,
        database: Database,
        search: KnowledgeBaseSearch,
        chat: Chat,
        fair_queue: FairQueue,
        *,
        max_passage_tokens: int,
    ) -> None:
        """Wire it; `max_passage_tokens` is what one call of a tool may return."""
        self._database = database
        self._search = search
        self._chat = chat
        self._fair_queue = fair_queue
        self._max_passage_tokens = max_passage_tokens
        self._storing: set[asyncio.Task[None]] = set()

    async def conduct(self, plan: Plan, tell: Tell) -> Run:
        """Make a run and store it whole. Whoever is cancelled stops the work; the run is then stored as cancelled.

        Raises:
            RequestError: it has no answer; the error carries `run_id`, and for an answer that is not as it should be
                the answer and what is wrong with it.
        """
        async with self._fair_queue.turn(plan.organization_id):
            return await self._conduct(plan, tell)

    async def _conduct(self, plan: Plan, tell: Tell) -> Run:
        tools = RunTools(
            self._search,
            plan.organization_id,
            Asker(plan.key_id, "agent", plan.run_id),
            plan.tools,
            delimiter=plan.delimiter,
            max_spus=plan.budget.max_spus,
            max_passage_tokens=self._max_passage_tokens,
        )
        execution = RunExecution(plan, self._chat, tools, tell)
        await runs.begin(self._database, execution.run)
        failure: RequestError | None = None
        status = Status.FAILED
        try:
            await execution.converse()
            status = Status.COMPLETED
        except asyncio.CancelledError:
            status = Status.CANCELLED
            raise
        except (KbError, PyMongoError) as error:
            failure = explained(error)
        finally:
            run = execution.ended(status, failure)
            # Also when the caller is gone, and its task with it.
            await asyncio.shield(self._keep(self._store(run)))
        await tell("run.finished", finished(run))
        if failure is not None:
            failure.extra["run_id"] = run.run_id
            raise failure
        return run

    async def close(self) -> None:
        """Wait until all runs that ended are stored."""
        await asyncio.gather(*self._storing)

    async def _store(self, run: Run) -> None:
        RUNS.labels(run.status).inc()
        if run.finished_at is not None:
            RUN_SECONDS.observe((run.finished_at - run.started_at).total_seconds())
        log.info(
            "run.finished",
            organization_id=run.organization_id,
            run_id=run.run_id,
            status=str(run.status),
            error_type=(run.error or {}).get("type"),
            iterations=run.iterations,
            tool_calls=len(run.tool_calls),
            citations=len(run.citations),
            tokens=run.prompt_tokens + run.completion_tokens,
            spus=run.spus,
        )
        try:
            await runs.finish(self._database, run)
        except PyMongoError:
            log.warning("run.not_stored", run_id=run.run_id, exc_info=True)

    def _keep(self, storing: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(storing)
        self._storing.add(task)
        task.add_done_callback(self._storing.discard)
        return task


class RunExecution:
    """One run while it is made."""

    def __init__(self, plan: Plan, chat: Chat, tools: RunTools, tell: Tell) -> None:
        self.run = plan.begun()
        self._plan = plan
        self._chat = chat
        self._tell = tell
        self._tools = tools
        self._described = [tool.described() for tool in plan.tools]
        self._state = RunState(plan.messages(), plan.schema, has_tools=bool(plan.tools))
        self._calls: list[dict[str, Any]] = []
        self._answer: str | None = None
        self._citations = Citations([], 0)
        self._began = asyncio.get_running_loop().time()

    async def converse(self) -> None:
        """Go on until there is an answer.

        Raises:
            RequestError: a budget is spent, or the answer is not as it should be.
            KbError: the model can't be asked.
        """
        await self._tell("run.started", {"run_id": self.run.run_id, "model": self.run.model})
        try:
            async with asyncio.timeout(self._plan.budget.max_seconds):
                while self._answer is None:
                    await self._step()
        except TimeoutError:
            raise _budget_spent("max_seconds") from None

    def ended(self, status: Status, failure: RequestError | None) -> Run:
        """The run as it is stored."""
        citations = self._citations
        state = self._state
        return replace(
            self.run,
            status=status,
            finished_at=now(),
            answer=self._answer,
            error={"type": failure.slug, "detail": failure.detail, **failure.extra} if failure else None,
            messages=[dict(message) for message in state.messages],
            tool_calls=self._calls,
            citations=[passage.as_citation() for passage in citations.passages],
            dropped_citations=citations.dropped,
            iterations=state.iterations,
            prompt_tokens=state.prompt_tokens,
            completion_tokens=state.completion_tokens,
            cost_usd=state.cost_usd,
            spus=self._tools.spus,
        )

    async def _step(self) -> None:
        action = loop.to_ask(
            self._state,
            self._plan.budget,
            elapsed_s=self._elapsed_s,
            next_prompt_tokens=estimated_tokens([*self._state.messages, *self._described]),
        )
        if isinstance(action, StopRun):
            raise _budget_spent(action.stop)
        completion = await self._ask(action)
        self._state, next_action = await self._hear(completion, action)
        match next_action:
            case CallTools():
                self._state = loop.returned(self._state, await self._call(next_action))
            case ModelAnswered(text):
                await self._answer_with(text)
            case Unusable(text, wrong):
                clean = self._clean()
                # What is no JSON, though it should be, can hold addresses outside of strings.
                shown = clean(clean_json(text, clean) if self._is_json else text)
                # What is wrong quotes the answer.
                raise _invalid_answer(shown, list(map(clean, wrong)))

    async def _ask(self, action: Ask) -> Completion:
        question = Question(
            self._state.messages,
            tools=self._described if action.with_tools else (),
            schema=self._plan.schema,
            max_completion_tokens=action.max_completion_tokens,
        )

        heard: list[str] = []
        shown = self._pieces()

        async def tell(text: str) -> None:
            if text:
                await self._tell("answer.delta", {"iteration": self._state.iterations + 1, "text": text})

        async def on_text(text: str) -> None:
            heard.append(text)
            await tell(text if shown is None else shown.feed(text))

        # Streaming costs more: only for whoever listens.
        listener = None if self._tell is tell_nobody else on_text
        model = self._plan.model
        try:
            async with turn_set_aside():
                completion = await self._chat.complete(
                    self._plan.organization_id, question, model=model, on_text=listener
                )
        except BaseException as error:
            # A caller who left and a budget of seconds end it, too.
            if heard or was_paid_for(error):
                self._state = loop.broke_off(self._state, broken_off("".join(heard), question, model))
            raise
        if shown is not None:
            await tell(shown.end())
        return completion

    def _clean(self) -> Clean:
        """Clean a text before it is shown: no foreign addresses, no citations that no search returned."""
        return partial(clean_text, is_known=self._tools.book.has, addresses=self._known_addresses())

    def _pieces(self) -> CleanPieces | CleanJsonPieces | None:
        """Return the filter for a streamed answer; None: it is passed on unchanged."""
        if not self._is_json:
            return CleanPieces(self._tools.book.has, self._known_addresses())
        return CleanJsonPieces(self._clean()) if self._plan.clean_strings else None

    async def _hear(self, completion: Completion, action: Ask) -> tuple[RunState, loop.Heard]:
        try:
            # Checking an answer against a schema can take half a second.
            return await asyncio.to_thread(loop.heard, self._state, completion, with_tools=action.with_tools)
        except BaseException:
            # Paid for, though nobody waits for it any more.
            self._state = loop.broke_off(self._state, completion)
            raise

    async def _call(self, action: CallTools) -> Sequence[tuple[ToolCall, str]]:
        for call in action.calls:
            told = {"call_id": call.call_id, "tool": call.name, "arguments": call.arguments}
            await self._tell("tool.called", told)
        results = await _all(*(self._call_one(call) for call in action.calls))
        return [*zip(action.calls, results, strict=True), *((call, _TOO_MANY) for call in action.too_many)]

    async def _call_one(self, call: ToolCall) -> str:
        began = asyncio.get_running_loop().time()
        returned = await self._tools.call(call)
        record = _record(call, returned, asyncio.get_running_loop().time() - began)
        self._calls.append(record)
        await self._tell("tool.returned", record)
        return returned.content

    async def _answer_with(self, text: str) -> None:
        self._citations = citations_of(text, self._tools.book, is_json=self._is_json)
        if self._plan.schema is None:
            self._answer = self._clean()(text)
        else:
            self._answer = await self._clean_json(text, self._plan.schema)
        for passage in self._citations.passages:
            await self._tell("citation", passage.as_citation())

    async def _clean_json(self, text: str, schema: Mapping[str, Any]) -> str:
        """Raises RequestError if the answer follows the schema only with what is taken out of its strings."""
        if not self._plan.clean_strings:
            return text
        clean = clean_json(text, self._clean())
        if clean != text and (wrong := await asyncio.to_thread(violations, clean, schema)):
            raise _invalid_answer(clean, wrong)
        return clean

    @property
    def _is_json(self) -> bool:
        return self._plan.schema is not None

    def _known_addresses(self) -> frozenset[str]:
        return addresses_in(chain(self._plan.texts(), self._tools.book.texts()))

    @property
    def _elapsed_s(self) -> float:
        return asyncio.get_running_loop().time() - self._began


async def _all(*work: Coroutine[Any, Any, T]) -> list[T]:
    """As `gather`, but nothing goes on when one has failed or the caller is gone."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _record(call: ToolCall, returned: Returned, seconds: float) -> dict[str, Any]:
    return {
        "call_id": call.call_id,
        "tool": call.name,
        "arguments": call.arguments,
        "passages": [passage.as_citation() for passage in returned.passages],
        "omitted_count": returned.omitted_count,
        "problem": returned.problem,
        "from_memory": returned.from_memory,
        "spus": returned.spus,
        "duration_ms": round(seconds * 1000, 1),
    }


def finished(run: Run) -> Mapping[str, Any]:
    """How a run ended, for whoever followed it."""
    return {
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "document_id": run.document_id,
        "document_truncated": run.document_truncated,
        "status": str(run.status),
        "answer": run.answer,
        "error": run.error,
        "citations": run.citations,
        "dropped_citations": run.dropped_citations,
        "iterations": run.iterations,
        "prompt_tokens": run.prompt_tokens,
        "completion_tokens": run.completion_tokens,
        "cost_usd": run.cost_usd,
        "spus": run.spus,
    }


def _budget_spent(which: loop.Stop) -> RequestError:
    return RequestError(
        422,
        "run-budget-exhausted",
        f"The run has used up its budget ({which}) without a whole answer. Allow more, or ask for less.",
        extra={"budget": which},
    )


def _invalid_answer(answer: str, violations: Sequence[str]) -> RequestError:
    return RequestError(
        422,
        "invalid-answer",
        "The model's answer is empty, cut off or does not follow the schema, also after it was told what is wrong.",
        extra={"answer": answer, "violations": list(violations)},
    )


def explained(error: Exception) -> RequestError:
    """Return the problem that describes an error that ended a run."""
    match error:
        case RequestError():
            return error
        case BudgetExhausted() | UnknownPrice():
            return as_request_error(error)
        case BatchRefused():
            return RequestError(
                422, "messages-refused", "The model's provider refuses the messages: too long, or not allowed."
            )
        case ProviderRefused() | UnknownModel():
            return RequestError(
                503,
                "provider-refused",
                "The model can't be used with the key there is for it; tell whoever keeps the key.",
                retry_after_s=60,
            )
        case ProviderUnavailable() | Parked():
            return RequestError(
                503,
                "provider-unavailable",
                "The model's provider can't serve this now; try again after Retry-After.",
                retry_after_s=error.retry_after_s or _RETRY_AFTER_S,
            )
        case _:
            retry_after_s = error.retry_after_s if isinstance(error, TransientError) else None
            return RequestError(
                503,
                "unavailable",
                "The database can't serve this now; try again after Retry-After.",
                retry_after_s=retry_after_s or _RETRY_AFTER_S,
            )
