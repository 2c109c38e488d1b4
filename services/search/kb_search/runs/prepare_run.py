"""Builds the plan of a run from a request: reads the prompt or agent, KBs, history and document that it names."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kb_contracts.api.prompt_injection import PromptInjection
from kb_contracts.api.runs import RunRequest
from kb_contracts.knowledge.prompt_template import DEFAULT_TEMPLATE, placeholders
from kb_search.runs.answer_schema import UnusableSchema, check_schema
from kb_search.runs.citations import remove_marks
from kb_search.runs.discussed_document import DiscussedDocument, build_reminder, read_discussed_document
from kb_search.runs.injected_message import InjectionSource, unknown_variables
from kb_search.runs.knowledge_tools import PROMPTS_TOOL, KnowledgeTool, describe_prompts_tool
from kb_search.runs.limited_callers import (
    owner_if_limited,
    require_document,
    require_knowledge_bases,
    require_own_thread,
)
from kb_search.runs.loop import RunLimits
from kb_search.runs.plan import Plan
from kb_search.settings import SearchSettings
from kb_search.store import prompts, runs
from kb_search.store.keys import PromptKey, ThreadKey
from kb_search.store.runs import Run
from kb_shared.chat.chat import Chat
from kb_shared.chat.completion import Message
from kb_shared.chat.models import ChatModel
from kb_shared.chat.prompt_delimiter import PromptDelimiter
from kb_shared.chat.provider import estimate_message_tokens
from kb_shared.chat.request_errors import require_model
from kb_shared.concurrency.shared_thread import SharedThread
from kb_shared.errors import NotFound
from kb_shared.http.authentication import Caller
from kb_shared.http.problems import invalid_field
from kb_shared.identifiers import new_id
from kb_shared.mongo import agents, knowledge_bases
from kb_shared.mongo.agents import Agent
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import AgentKey, DocumentKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.query_log import Origin

RUNS_REMEMBERED: Final = 20
"""Number of runs of a thread whose messages the next run gets."""
HISTORY_SHARE: Final = 0.1
"""Share of a run's tokens for the history, which counts each time that the model is asked."""
DEFAULT_ITERATIONS: Final = 5
TEMPERATURE: Final = 0.2
"""Temperature of models that take any. At those of their servers, small models cite wrong passages."""
SHARE_OF_ORGANIZATION: Final = 0.25
"""Share of one organization of the time of the thread that checks schemas."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Settings of a run, from a prompt, an agent or the request itself."""

    model: str
    instructions: str = ""
    tools: Sequence[KnowledgeTool] = ()
    schema: Mapping[str, Any] | None = None
    question: Sequence[Message] = ()
    max_iterations: int | None = None
    auto_search: bool = False
    injection: str | None = None
    """Injection as it is stored."""
    temperature: float | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class _EarlierMessages:
    """History of a thread, as its next run is told of it."""

    messages: Sequence[Message] = ()
    questions: Sequence[str] = ()
    has_document: bool = False
    """True if a question was about a document."""


class Preparation:
    """Builds the plans of runs. There is one in each process."""

    def __init__(self, database: Database, chat: Chat, settings: SearchSettings) -> None:
        self._database = database
        self._chat = chat
        self._settings = settings
        self._thread = SharedThread("schemas", share_of=lambda _: SHARE_OF_ORGANIZATION)

    async def plan(self, caller: Caller, request: RunRequest, *, origin: Origin) -> Plan:
        """Build the plan of a run.

        Raises:
            NotFound: There is no such prompt, agent, thread, document or KB in the organization.
            RequestError: 422 `model-not-allowed`, `unknown-model`, `provider-key-missing`, an unsupported schema, or a
                budget above the limit of the deployment; 409 `waiting-for-text`.
            TransientError: The document's text has just been replaced.
        """
        organization_id = caller.organization_id
        await self.check_answer_schema(organization_id, "response_schema", request.response_schema)
        source = await self._source(organization_id, request)
        require_knowledge_bases(caller, (kb_id for tool in source.tools for kb_id in tool.kb_ids))
        delimiter = PromptDelimiter.create()
        messages: list[Message] = [message.model_dump() for message in request.messages]
        model = await self.require_model(organization_id, source.model)
        limits = self._limits(request, source, model)
        history = await self._read_history(
            caller,
            thread_id=request.thread_id,
            delimiter=delimiter,
            max_tokens=int(limits.max_tokens * HISTORY_SHARE),
        )
        return Plan(
            run_id=new_id(),
            organization_id=organization_id,
            key_id=caller.key_id,
            model=model,
            instructions=source.instructions,
            history=history.messages,
            has_earlier_document=history.has_document,
            question=[*source.question, *messages],
            # The text of a prompt is rather an instruction than a question, unless it stands alone.
            questions=[*history.questions, *_questions_of(messages or source.question)],
            tools=source.tools,
            schema=source.schema if request.response_schema is None else request.response_schema,
            limits=limits,
            delimiter=delimiter,
            thread_id=request.thread_id,
            prompt_id=request.prompt_id,
            agent_id=request.agent_id,
            document=await self._read_document(caller, document_id=request.document_id),
            clean_strings=request.clean_strings,
            temperature=_temperature(source, model),
            origin=origin,
            injection=await self._plan_injection(caller, request, stored=source.injection),
            auto_search=source.auto_search if request.auto_search is None else request.auto_search,
        )

    async def check_answer_schema(self, organization_id: str, field: str, schema: Mapping[str, Any] | None) -> None:
        """Raise RequestError 422 that names `field` if answers can't be checked against the schema; None passes."""
        if schema is None:
            return
        try:
            await self._thread.work(organization_id, partial(check_schema, schema))
        except UnusableSchema as problem:
            raise invalid_field(field, f"the schema {problem}") from None

    async def require_model(self, organization_id: str, name: str) -> ChatModel:
        """Return the model. Raises RequestError 422 if the organization can't use it."""
        return await require_model(self._chat, organization_id, name)

    async def _source(self, organization_id: str, request: RunRequest) -> _Source:
        if request.agent_id is not None:
            agent = await agents.get(self._database, AgentKey(organization_id, request.agent_id))
            return await self._source_from_agent(agent)
        if request.prompt_id is not None:
            prompt = PromptKey(organization_id, request.prompt_id)
            return await self._source_from_prompt(prompt, kb_ids=request.named_kb_ids)
        tools = await self._build_tools(organization_id, kb_ids=request.named_kb_ids or [])
        return _Source(model=request.model or self._settings.chat_model, tools=tools)

    async def _source_from_prompt(self, key: PromptKey, *, kb_ids: Sequence[str] | None) -> _Source:
        prompt = await prompts.get(self._database, key)
        return _Source(
            model=prompt.model,
            tools=await self._build_tools(
                key.organization_id, kb_ids=prompt.kb_ids if kb_ids is None else kb_ids, may_be_gone=kb_ids is None
            ),
            schema=json.loads(prompt.schema) if prompt.schema else None,
            question=[{"role": "user", "content": prompt.content}],
            auto_search=prompt.auto_search,
            injection=prompt.injection,
        )

    async def _source_from_agent(self, agent: Agent) -> _Source:
        kb_ids = {tool.kb_id for tool in agent.tools}
        kbs = await knowledge_bases.find_by_ids(self._database, agent.organization_id, kb_ids)
        tools = [
            KnowledgeTool(
                tool.tool_name,
                tool.tool_description,
                [tool.kb_id],
                default_top_k=tool.default_top_k,
                min_score=tool.default_min_score,
                filterable_metadata=_filterable_in_all([kbs[tool.kb_id]] if tool.kb_id in kbs else []),
            )
            for tool in agent.tools
        ]
        return _Source(
            agent.model,
            agent.instructions,
            tools,
            max_iterations=agent.max_iterations,
            auto_search=agent.auto_search,
            injection=agent.injection,
            temperature=agent.temperature,
            max_output_tokens=agent.max_output_tokens,
        )

    async def _build_tools(
        self, organization_id: str, *, kb_ids: Sequence[str], may_be_gone: bool = False
    ) -> list[KnowledgeTool]:
        """Return the tool that searches these KBs. Raises NotFound if one of them does not exist, and may not."""
        kbs = await knowledge_bases.find_by_ids(self._database, organization_id, kb_ids) if kb_ids else {}
        if len(kbs) < len(set(kb_ids)) and not may_be_gone:
            raise NotFound("knowledge base")
        if not kb_ids:
            return []
        searched = list(dict.fromkeys(kb_ids))
        description = describe_prompts_tool([kbs[kb_id].description for kb_id in searched if kb_id in kbs])
        filterable = _filterable_in_all(list(kbs.values()))
        return [KnowledgeTool(PROMPTS_TOOL, description, searched, filterable_metadata=filterable)]

    async def _read_history(
        self, caller: Caller, *, thread_id: str | None, delimiter: PromptDelimiter, max_tokens: int
    ) -> _EarlierMessages:
        if thread_id is None:
            return _EarlierMessages()
        thread = ThreadKey(caller.organization_id, thread_id)
        require_own_thread(caller, await runs.get_thread(self._database, thread))
        earlier = await runs.find_latest_of_thread(
            self._database, thread, at_most=RUNS_REMEMBERED, key_id=owner_if_limited(caller)
        )
        # Models refuse an answer without text.
        answered = [run for run in earlier if run.answer]
        messages = select_newest_messages([_messages_of_run(run, delimiter) for run in answered], max_tokens=max_tokens)
        questions = [question for run in answered for question in _questions_of(run.question)]
        return _EarlierMessages(messages, questions, has_document=any(run.document_name for run in answered))

    async def _read_document(self, caller: Caller, *, document_id: str | None) -> DiscussedDocument | None:
        if document_id is None:
            return None
        await require_document(self._database, caller, document_id)
        max_tokens = self._settings.run_document_tokens
        return await read_discussed_document(
            self._database, DocumentKey(caller.organization_id, document_id), max_tokens=max_tokens
        )

    async def _plan_injection(
        self, caller: Caller, request: RunRequest, *, stored: str | None
    ) -> InjectionSource | None:
        """Return what is injected. Raises RequestError 422 for a field of the request that nothing would use."""
        source = read_injection(request, stored)
        if source is not None and source.injection.knowledge.mode != "none" and caller.kb_ids is not None:
            # A key that is limited to KBs sees knowledge only if it may use the KB that contains the entries.
            kb = await knowledge_bases.find_knowledge(self._database, caller.organization_id)
            if kb is not None:
                caller.require_knowledge_base(kb.kb_id)
        return source

    def _limits(self, request: RunRequest, source: _Source, model: ChatModel) -> RunLimits:
        asked, settings = request.budget, self._settings
        # The tokens of an answer include its reasoning, whose length is not known before.
        usual = None if model.reasons else settings.run_max_output_tokens
        return RunLimits(
            max_iterations=request.max_iterations or source.max_iterations or DEFAULT_ITERATIONS,
            max_output_tokens=source.max_output_tokens or usual,
            max_tokens=int(_within_limit("max_tokens", asked.max_tokens, allowed=settings.run_max_tokens)),
            max_spus=int(_within_limit("max_spus", asked.max_spus, allowed=settings.run_max_spus)),
            max_seconds=_within_limit("max_seconds", asked.max_seconds, allowed=settings.run_max_seconds),
        )


def read_injection(request: RunRequest, stored: str | None) -> InjectionSource | None:
    """Return the injection of a run; None if its prompt or agent injects nothing.

    Raises:
        RequestError: 422, the request has a value that nothing would use.
    """
    if stored is None:
        for name in ("entity_id", "variables", "attachments"):
            if getattr(request, name):
                raise invalid_field(name, "must be left out: no prompt or agent has a template that would use it")
        return None
    injection = PromptInjection.model_validate_json(stored)
    if unknown := unknown_variables(injection, request.variables):
        raise invalid_field("variables", f"must be placeholders of the template, unlike {', '.join(unknown)}")
    if request.attachments and "attachments" not in placeholders(injection.template or DEFAULT_TEMPLATE):
        raise invalid_field("attachments", "must be left out: the template has no placeholder {{ attachments }}")
    takes_entity = injection.knowledge.entity_from == "request"
    if request.entity_id is not None and not takes_entity:
        raise invalid_field("entity_id", "must be left out: the prompt or agent does not say `entity_from: request`")
    entity_id = request.entity_id if takes_entity else injection.knowledge.entity_id
    return InjectionSource(injection, entity_id, request.variables, request.attachments)


def select_newest_messages(messages_by_run: Sequence[Sequence[Message]], *, max_tokens: int) -> list[Message]:
    """Return the messages of as many of the newest runs as fit, oldest first. No run is kept in part."""
    kept: list[Message] = []
    left = max_tokens
    for messages in reversed(messages_by_run):
        left -= estimate_message_tokens(messages)
        if left < 0:
            break
        kept = [*messages, *kept]
    return kept


def _messages_of_run(run: Run, delimiter: PromptDelimiter) -> list[Message]:
    document = [] if run.document_name is None else [build_reminder(run.document_name, delimiter)]
    highest = max((citation.number for citation in run.citations), default=0)
    answer = remove_marks(run.answer or "", highest=highest, is_json=run.is_json)
    return [*document, *run.question, {"role": "assistant", "content": answer}]


def _temperature(source: _Source, model: ChatModel) -> float | None:
    if source.temperature is None and not model.reasons:
        return TEMPERATURE
    return source.temperature


def _questions_of(messages: Sequence[Message]) -> list[str]:
    return [str(message["content"]) for message in messages if message["role"] == "user"]


def _filterable_in_all(kbs: Sequence[KnowledgeBase]) -> list[str]:
    """Return the metadata keys that filters can compare in each of these KBs."""
    first, *others = [kb.filterable_metadata for kb in kbs] or [()]
    return [key for key in first if all(key in keys for keys in others)]


def _within_limit(name: str, asked: float | None, *, allowed: float) -> float:
    if asked is not None and asked > allowed:
        raise invalid_field(f"budget.{name}", f"must be at most {allowed:g}, the limit of this deployment")
    return allowed if asked is None else asked
