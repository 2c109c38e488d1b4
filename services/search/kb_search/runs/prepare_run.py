"""From a request to a plan: read what it names, from the prompt or agent to the KBs; refuse what can't become a run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kb_search.runs.answer_schema import UnusableSchema, check_schema
from kb_search.runs.citations import without_marks
from kb_search.runs.discussed_document import DiscussedDocument, read_discussed, reminder
from kb_search.runs.knowledge_tools import PROMPTS_TOOL, PROMPTS_TOOL_DESCRIPTION, KnowledgeTool
from kb_search.runs.loop import RunBudget
from kb_search.runs.passages import PromptDelimiter
from kb_search.runs.plan import Plan
from kb_search.runs.run_request import RunRequest
from kb_search.settings import Settings
from kb_search.store import prompts, runs
from kb_search.store.runs import Run
from kb_shared.chat.chat import Chat
from kb_shared.chat.completion import Message
from kb_shared.chat.models import ChatModel
from kb_shared.chat.provider import estimate_message_tokens
from kb_shared.concurrency.shared_thread import SharedThread
from kb_shared.errors import ModelNotAllowed, ProviderKeyMissing, RequestError, UnknownModel
from kb_shared.http.authentication import Caller
from kb_shared.http.problems import invalid_field
from kb_shared.identifiers import new_id
from kb_shared.mongo import agents, knowledge_bases
from kb_shared.mongo.agents import Agent
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import KnowledgeBaseKey

RUNS_REMEMBERED: Final = 20
"""Number of the newest runs of a thread that the next one knows."""
HISTORY_SHARE: Final = 0.1
"""Share of a run's tokens: the history counts each time that the model is asked."""
DEFAULT_ITERATIONS: Final = 5
SHARE_OF_ORGANIZATION: Final = 0.25
"""Share of the time of the thread that checks schemas."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Settings of a run, from a prompt, an agent or the request itself."""

    model: str
    instructions: str = ""
    tools: Sequence[KnowledgeTool] = ()
    schema: Mapping[str, Any] | None = None
    question: Sequence[Message] = ()
    max_iterations: int | None = None


class Preparation:
    """Makes plans; made once a process."""

    def __init__(self, database: Database, chat: Chat, settings: Settings) -> None:
        self._database = database
        self._chat = chat
        self._settings = settings
        self._thread = SharedThread("schemas", share_of=lambda _: SHARE_OF_ORGANIZATION)

    async def plan(self, caller: Caller, request: RunRequest) -> Plan:
        """Make the plan of a run.

        Raises:
            NotFound: no such prompt, agent, thread, document or KB in the organization.
            RequestError: 422 `model-not-allowed`, `unknown-model`, `provider-key-missing`, a schema that is not taken,
                or a budget above the deployment's; 409 `waiting-for-text`.
            TransientError: the document's text has just been replaced.
        """
        organization_id = caller.organization_id
        await self.check_answer_schema(organization_id, "response_schema", request.response_schema)
        source = await self._source(organization_id, request)
        delimiter = PromptDelimiter.fresh()
        asked: list[Message] = [message.model_dump() for message in request.messages]
        budget = self._budget(request, source)
        return Plan(
            run_id=new_id(),
            organization_id=organization_id,
            key_id=caller.key_id,
            model=await self.model(organization_id, source.model),
            instructions=source.instructions,
            history=await self._history(
                organization_id, request.thread_id, delimiter, max_tokens=int(budget.max_tokens * HISTORY_SHARE)
            ),
            question=[*source.question, *asked],
            tools=source.tools,
            schema=source.schema if request.response_schema is None else request.response_schema,
            budget=budget,
            delimiter=delimiter,
            thread_id=request.thread_id,
            prompt_id=request.prompt_id,
            agent_id=request.agent_id,
            document=await self._document(organization_id, request.document_id),
            clean_strings=request.clean_strings,
        )

    async def check_answer_schema(self, organization_id: str, field: str, schema: Mapping[str, Any] | None) -> None:
        """Raises RequestError 422 that names `field` unless answers can be checked against the schema, if any."""
        if schema is None:
            return
        try:
            await self._thread.work(organization_id, partial(check_schema, schema))
        except UnusableSchema as problem:
            raise invalid_field(field, f"The schema {problem}") from None

    async def model(self, organization_id: str, name: str) -> ChatModel:
        """Raises RequestError 422 unless the model can be asked for the organization."""
        try:
            return await self._chat.model(organization_id, name)
        except ModelNotAllowed as error:
            raise RequestError(
                422,
                "model-not-allowed",
                "This deployment does not allow this chat model; use one of `allowed_models`, in which * stands for "
                "any characters. Its operator can allow more (KB_CHAT_MODELS).",
                extra={"allowed_models": list(error.allowed)},
            ) from error
        except UnknownModel as error:
            raise RequestError(422, "unknown-model", f"There is no such chat model here: {error}.") from error
        except ProviderKeyMissing as error:
            raise RequestError(422, "provider-key-missing", f"There is no key for this model: {error}.") from error

    async def _source(self, organization_id: str, request: RunRequest) -> _Source:
        if request.agent_id is not None:
            return _of_agent(await agents.get(self._database, organization_id, request.agent_id))
        if request.prompt_id is not None:
            return await self._of_prompt(organization_id, request.prompt_id, request.named_kb_ids)
        kb_ids = request.named_kb_ids or []
        await self._check(organization_id, kb_ids)
        return _Source(model=request.model or self._settings.chat_model, tools=_tool_of(kb_ids))

    async def _of_prompt(self, organization_id: str, prompt_id: str, named: Sequence[str] | None) -> _Source:
        prompt = await prompts.get(self._database, organization_id, prompt_id)
        if named is not None:
            await self._check(organization_id, named)
        return _Source(
            model=prompt.model,
            tools=_tool_of(prompt.kb_ids if named is None else named),
            schema=json.loads(prompt.schema) if prompt.schema else None,
            question=[{"role": "user", "content": prompt.content}],
        )

    async def _check(self, organization_id: str, kb_ids: Sequence[str]) -> None:
        for kb_id in kb_ids:
            await knowledge_bases.get(self._database, KnowledgeBaseKey(organization_id, kb_id))

    async def _history(
        self, organization_id: str, thread_id: str | None, delimiter: PromptDelimiter, *, max_tokens: int
    ) -> list[Message]:
        if thread_id is None:
            return []
        await runs.get_thread(self._database, organization_id, thread_id)
        earlier = await runs.of_thread(self._database, organization_id, thread_id, at_most=RUNS_REMEMBERED)
        return newest_turns([_turn(run, delimiter) for run in earlier], max_tokens=max_tokens)

    async def _document(self, organization_id: str, document_id: str | None) -> DiscussedDocument | None:
        if document_id is None:
            return None
        max_tokens = self._settings.run_document_tokens
        return await read_discussed(self._database, organization_id, document_id, max_tokens=max_tokens)

    def _budget(self, request: RunRequest, source: _Source) -> RunBudget:
        asked, settings = request.budget, self._settings
        return RunBudget(
            max_iterations=request.max_iterations or source.max_iterations or DEFAULT_ITERATIONS,
            max_tokens=int(_at_most("max_tokens", asked.max_tokens, settings.run_max_tokens)),
            max_spus=int(_at_most("max_spus", asked.max_spus, settings.run_max_spus)),
            max_seconds=_at_most("max_seconds", asked.max_seconds, settings.run_max_seconds),
        )


def newest_turns(turns: Sequence[Sequence[Message]], *, max_tokens: int) -> list[Message]:
    """The messages of as many turns, the oldest of them first, as there is room for; none is cut in its middle."""
    kept: list[Message] = []
    left = max_tokens
    for turn in reversed(turns):
        left -= estimate_message_tokens(turn)
        if left < 0:
            break
        kept = [*turn, *kept]
    return kept


def _turn(run: Run, delimiter: PromptDelimiter) -> list[Message]:
    about = [] if run.document_name is None else [reminder(run.document_name, delimiter)]
    answer = without_marks(run.answer or "", is_json=run.is_json)
    return [*about, *run.question, {"role": "assistant", "content": answer}]


def _of_agent(agent: Agent) -> _Source:
    tools = [
        KnowledgeTool(
            tool.tool_name,
            tool.tool_description,
            [tool.kb_id],
            default_top_k=tool.default_top_k,
            min_score=tool.default_min_score,
        )
        for tool in agent.tools
    ]
    return _Source(agent.model, agent.instructions, tools, max_iterations=agent.max_iterations)


def _tool_of(kb_ids: Sequence[str]) -> list[KnowledgeTool]:
    return [KnowledgeTool(PROMPTS_TOOL, PROMPTS_TOOL_DESCRIPTION, list(dict.fromkeys(kb_ids)))] if kb_ids else []


def _at_most(name: str, asked: float | None, allowed: float) -> float:
    if asked is not None and asked > allowed:
        raise invalid_field(f"budget.{name}", f"Input should be at most {allowed:g}, which this deployment allows")
    return allowed if asked is None else asked
