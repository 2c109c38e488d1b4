"""The use case of a run: wait for a turn, store the beginning, execute the run, store the end, report the result."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pymongo.errors import PyMongoError

from kb_search.knowledge.retrieve_knowledge import KnowledgeRetrieval
from kb_search.retrieval.query import SearchCaller
from kb_search.retrieval.search_knowledge_base import KnowledgeBaseSearch
from kb_search.runs.events import SendEvent
from kb_search.runs.inject_knowledge import KnowledgeInjector
from kb_search.runs.plan import Plan
from kb_search.runs.run_cancellations import RunCancellations
from kb_search.runs.run_errors import RunCancelled, map_run_error
from kb_search.runs.run_execution import RunExecution
from kb_search.runs.run_recorder import RunRecorder
from kb_search.runs.run_response import to_view
from kb_search.runs.run_tools import RunTools
from kb_search.store.keys import RunKey
from kb_search.store.runs import Run, RunStatus
from kb_shared.chat.chat import Chat
from kb_shared.concurrency.fair_queue import FairQueue
from kb_shared.errors import KbError, RequestError
from kb_shared.mongo.database import Database
from kb_shared.observability import spans, tracing


class Conductor:
    """Conducts the runs of one process."""

    def __init__(
        self,
        database: Database,
        search: KnowledgeBaseSearch,
        *,
        retrieval: KnowledgeRetrieval,
        chat: Chat,
        fair_queue: FairQueue,
        max_passage_tokens: int,
        citations_kept: timedelta,
    ) -> None:
        """Construct it; `max_passage_tokens` limits what one call of a tool returns."""
        self._recorder = RunRecorder(database, citations_kept=citations_kept)
        self._cancellations = RunCancellations(database)
        self._database = database
        self._search = search
        self._retrieval = retrieval
        self._chat = chat
        self._fair_queue = fair_queue
        self._max_passage_tokens = max_passage_tokens

    async def conduct(self, plan: Plan, send_event: SendEvent) -> Run:
        """Execute a run and store it with its result. A run whose task is cancelled is stored as cancelled.

        Raises:
            RequestError: The run has no answer. The error has the field `run_id`; if the model's answer was
                unusable, also the answer and what is wrong with it.
        """
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.request.model": plan.model.name,
            "kb.organization_id": plan.organization_id,
            "kb.run_id": plan.run_id,
        }
        with tracing.span(spans.RUN, attributes):
            async with self._fair_queue.take_turn(plan.organization_id):
                return await self._conduct(plan, send_event)

    async def _conduct(self, plan: Plan, send_event: SendEvent) -> Run:
        search_caller = SearchCaller(plan.key_id, "agent", plan.run_id, agent_id=plan.agent_id)
        tools = RunTools(
            self._search,
            plan.organization_id,
            search_caller=search_caller,
            tools=plan.tools,
            delimiter=plan.delimiter,
            max_spus=plan.limits.max_spus,
            max_passage_tokens=self._max_passage_tokens,
        )
        injector = self._create_injector(plan, tools, search_caller=search_caller)
        execution = RunExecution(plan, self._chat, tools=tools, injector=injector, send_event=send_event)
        await self._recorder.begin(execution.run)
        failure: RequestError | None = None
        status = RunStatus.FAILED
        try:
            await self._cancellations.carry_out(RunKey(plan.organization_id, plan.run_id), execution.converse())
            status = RunStatus.COMPLETED
        except asyncio.CancelledError:
            status = RunStatus.CANCELLED
            raise
        except RunCancelled as error:
            failure, status = error, RunStatus.CANCELLED
        except (KbError, PyMongoError) as error:
            failure = map_run_error(error)
        finally:
            run = execution.build_run(status, failure)
            tracing.annotate(_span_attributes(run))
            await self._recorder.finish(run, tools.passages.all())
        await send_event("run.finished", run_finished_event(run))
        if failure is not None:
            failure.extra["run_id"] = run.run_id
            raise failure
        return run

    def _create_injector(self, plan: Plan, tools: RunTools, *, search_caller: SearchCaller) -> KnowledgeInjector | None:
        if plan.injection is None:
            return None
        return KnowledgeInjector(
            self._database,
            self._retrieval,
            organization_id=plan.organization_id,
            source=plan.injection,
            tools=tools,
            search_caller=search_caller,
        )

    async def close(self) -> None:
        """Wait until all runs that ended are stored."""
        await self._cancellations.close()
        await self._recorder.close()


def _span_attributes(run: Run) -> tracing.Attributes:
    return {
        "kb.status": str(run.status),
        "kb.iterations": run.iterations,
        "kb.spus": run.spus,
        "gen_ai.usage.input_tokens": run.prompt_tokens,
        "gen_ai.usage.output_tokens": run.completion_tokens,
    }


def run_finished_event(run: Run) -> Mapping[str, Any]:
    """Build the data of the event `run.finished`: all of `RunView`."""
    return to_view(run).model_dump(mode="json")
