from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from fastapi import Response

from kb_contracts.api.agents import (
    AddTool,
    AgentList,
    AgentView,
    AvailableKnowledgeBase,
    AvailableKnowledgeBases,
    ChangeAgent,
    ChangeNamedTool,
    ChangeTool,
    CreateAgent,
    ToolView,
)
from kb_contracts.api.model import MessageResponse
from kb_search.authoring.agent_tools import append_tool, drop_tool, replace_tool
from kb_search.authoring.authoring_checks import shown_injection
from kb_search.dependencies import AuthoringChecks, Database, Reader, Writer
from kb_shared.errors import TransientError
from kb_shared.http.authentication import Caller
from kb_shared.http.changes import commit_change
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.preconditions import (
    ExpectedVersions,
    IfMatch,
    precondition_failed,
    require_version,
    set_etag,
)
from kb_shared.http.problems import responses
from kb_shared.http.routing import organization_router
from kb_shared.identifiers import new_id
from kb_shared.mongo import agents, kb_slots, knowledge_bases
from kb_shared.mongo.agents import Agent, KnowledgeBaseTool
from kb_shared.mongo.database import MongoSession
from kb_shared.mongo.keys import AgentKey, KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.stored_time import now

ATTEMPTS: Final = 10

_WHAT: Final = "agent"

router = organization_router("agents")

Tools = Sequence[KnowledgeBaseTool]


@router.post(
    "/agents",
    operation_id="agents.create",
    status_code=201,
    summary="Create an agent",
    responses=responses(
        "model-not-allowed", "provider-key-missing", "unknown-model", "unknown-price", "quota-exceeded"
    ),
)
async def create(
    database: Database, checks: AuthoringChecks, caller: Writer, body: CreateAgent, response: Response
) -> AgentView:
    """Create an agent without tools."""
    await checks.require_agent_quota(caller)
    created_at = now()
    agent = Agent(
        agent_id=new_id(),
        organization_id=caller.organization_id,
        name=body.name,
        instructions=body.instructions,
        model=await checks.usable_model(caller, body.model),
        max_iterations=body.max_iterations,
        auto_search=body.auto_search,
        temperature=body.temperature,
        max_output_tokens=body.max_output_tokens,
        injection=checks.stored_injection(body.injection),
        tools=(),
        version=1,
        created_at=created_at,
        updated_at=created_at,
        created_by=caller.key_id,
        updated_by=caller.key_id,
    )
    await commit_change(
        database, lambda session: agents.insert(database, agent, session=session), answer=lambda _: _view(agent, {})
    )
    set_etag(response, agent.version)
    return _view(agent, {})


@router.get("/agents", operation_id="agents.list", summary="List agents")
async def list_all(database: Database, caller: Reader, skip: Skip = 0, limit: Limit = DEFAULT_LIMIT) -> AgentList:
    """List the agents of the organization, newest first."""
    found, total_count = await agents.find_page(database, caller.organization_id, skip=skip, limit=limit)
    return AgentList(agents=await _views(database, caller, found), total_count=total_count)


@router.get("/agents/{agent_id}", operation_id="agents.get", summary="Get an agent")
async def get(database: Database, caller: Reader, agent_id: str, response: Response) -> AgentView:
    """Return an agent with its tools."""
    agent = await agents.get(database, AgentKey(caller.organization_id, agent_id))
    set_etag(response, agent.version)
    return (await _views(database, caller, [agent]))[0]


@router.put(
    "/agents/{agent_id}",
    operation_id="agents.update",
    summary="Change an agent",
    responses=responses(
        "model-not-allowed", "provider-key-missing", "unknown-model", "unknown-price", "precondition-failed"
    ),
)
async def change(
    database: Database,
    checks: AuthoringChecks,
    caller: Writer,
    agent_id: str,
    *,
    body: ChangeAgent,
    if_match: IfMatch,
    response: Response,
) -> AgentView:
    """Change the given fields of an agent. Its tools do not change."""
    key = AgentKey(caller.organization_id, agent_id)
    require_version((await agents.get(database, key)).version, if_match, what=_WHAT)
    fields = body.model_dump(exclude={"injection"}, exclude_none=True)
    if body.injection is not None:
        fields["injection"] = checks.stored_injection(body.injection)
    if body.model is not None:
        fields["model"] = await checks.usable_model(caller, body.model)

    async def store(session: MongoSession) -> Agent:
        stored = await agents.change(database, session, key, fields=fields, by=caller.key_id, versions=if_match)
        if stored is None:
            await agents.get(database, key, session=session)
            raise precondition_failed(_WHAT)
        return stored

    changed = await commit_change(database, store)
    set_etag(response, changed.version)
    return (await _views(database, caller, [changed]))[0]


@router.delete("/agents/{agent_id}", operation_id="agents.delete", summary="Delete an agent")
async def delete(database: Database, caller: Writer, agent_id: str) -> MessageResponse:
    key = AgentKey(caller.organization_id, agent_id)
    await commit_change(database, lambda session: agents.delete(database, session, key))
    return MessageResponse(message="Agent deleted successfully")


@router.post(
    "/agents/{agent_id}/knowledge-base-tools",
    operation_id="agents.add_tool",
    status_code=201,
    summary="Add a knowledge base to an agent",
    responses=responses("tool-exists", "tool-limit"),
)
async def add_tool(
    database: Database, caller: Writer, agent_id: str, *, body: AddTool, response: Response
) -> AgentView:
    """Add a tool that searches a knowledge base."""
    await agents.get(database, AgentKey(caller.organization_id, agent_id))
    kb = await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, body.kb_id))
    tool_id = new_id()
    return await _change_tools(
        database,
        caller,
        agent_id=agent_id,
        change=lambda tools: append_tool(tools, body, kb_name=kb.name, kb_description=kb.description, tool_id=tool_id),
        response=response,
    )


@router.patch(
    "/agents/{agent_id}/knowledge-base-tools/{tool_id}",
    operation_id="agents.update_tool",
    summary="Change a tool of an agent",
    responses=responses("precondition-failed"),
)
async def change_tool(
    database: Database,
    caller: Writer,
    agent_id: str,
    *,
    tool_id: str,
    body: ChangeTool,
    if_match: IfMatch,
    response: Response,
) -> AgentView:
    fields = _read_given_fields(body)
    return await _change_tools(
        database,
        caller,
        agent_id=agent_id,
        change=lambda tools: replace_tool(tools, tool_id, fields=fields),
        response=response,
        expected=if_match,
    )


@router.patch(
    "/agents/{agent_id}/knowledge-base-tools",
    operation_id="agents.update_named_tool",
    summary="Change a tool named in the body",
    deprecated=True,
    responses=responses("precondition-failed"),
)
async def change_named_tool(
    database: Database, caller: Writer, agent_id: str, *, body: ChangeNamedTool, if_match: IfMatch, response: Response
) -> AgentView:
    """Use `PATCH /agents/{agent_id}/knowledge-base-tools/{tool_id}` instead."""
    fields = _read_given_fields(body)
    return await _change_tools(
        database,
        caller,
        agent_id=agent_id,
        change=lambda tools: replace_tool(tools, body.tool_id, fields=fields),
        response=response,
        expected=if_match,
    )


@router.delete(
    "/agents/{agent_id}/tools/{tool_id}", operation_id="agents.remove_tool", summary="Remove a tool from an agent"
)
async def remove_tool(
    database: Database, caller: Writer, agent_id: str, *, tool_id: str, response: Response
) -> AgentView:
    return await _change_tools(
        database, caller, agent_id=agent_id, change=lambda tools: drop_tool(tools, tool_id), response=response
    )


@router.get(
    "/agents/{agent_id}/available-knowledge-bases",
    operation_id="agents.list_available_knowledge_bases",
    summary="List knowledge bases for an agent",
)
async def available(database: Database, caller: Reader, agent_id: str) -> AvailableKnowledgeBases:
    """List the knowledge bases of the organization with their size, and whether the agent has them."""
    agent = await agents.get(database, AgentKey(caller.organization_id, agent_id))
    kbs = await knowledge_bases.with_shown_status(
        database,
        caller.organization_id,
        await knowledge_bases.find_of_organization(database, caller.organization_id),
    )
    totals = await kb_slots.sum_counters(database, caller.organization_id, kb_ids=[kb.kb_id for kb in kbs])
    linked = {tool.kb_id for tool in agent.tools}
    shown = [
        AvailableKnowledgeBase(
            kb_id=kb.kb_id,
            name=kb.name,
            description=kb.description,
            status=str(kb.status),
            document_count=documents,
            chunk_count=chunks,
            is_linked=kb.kb_id in linked,
        )
        for kb in kbs
        for documents, chunks in [totals.get(kb.kb_id, (0, 0))]
    ]
    return AvailableKnowledgeBases(knowledge_bases=shown)


def _read_given_fields(body: ChangeTool) -> dict[str, Any]:
    given = body.model_dump(exclude={"tool_id"}, exclude_unset=True)
    return {name: value for name, value in given.items() if value is not None or name == "default_min_score"}


async def _views(database: Database, caller: Caller, found: Sequence[Agent]) -> list[AgentView]:
    kb_ids = {tool.kb_id for agent in found for tool in agent.tools}
    kbs = await knowledge_bases.find_by_ids(database, caller.organization_id, kb_ids)
    return [_view(agent, kbs) for agent in found]


class _ChangedMeanwhile(Exception):
    """Another request has changed the agent since it was read."""


async def _change_tools(
    database: Database,
    caller: Caller,
    *,
    agent_id: str,
    change: Callable[[Tools], Tools],
    response: Response,
    expected: ExpectedVersions = None,
) -> AgentView:
    for _ in range(ATTEMPTS):
        agent = await agents.get(database, AgentKey(caller.organization_id, agent_id))
        require_version(agent.version, expected, what=_WHAT)
        tools = change(agent.tools)
        kbs = await knowledge_bases.find_by_ids(database, caller.organization_id, {tool.kb_id for tool in tools})

        async def store(session: MongoSession, agent: Agent = agent, tools: Tools = tools) -> Agent:
            changed = await agents.set_tools(database, agent, tools, by=caller.key_id, session=session)
            if changed is None:
                raise _ChangedMeanwhile
            return changed

        with suppress(_ChangedMeanwhile):
            view = partial(_view, kbs=kbs)
            stored = await commit_change(database, store, answer=view)
            set_etag(response, stored.version)
            return view(stored)
    raise TransientError(f"gave up after {ATTEMPTS} conflicting changes of this agent")


def _view(agent: Agent, kbs: Mapping[str, KnowledgeBase]) -> AgentView:
    same = (
        "agent_id",
        "name",
        "instructions",
        "model",
        "max_iterations",
        "auto_search",
        "temperature",
        "max_output_tokens",
        "created_at",
        "updated_at",
        "created_by",
        "updated_by",
    )
    return AgentView(
        **{name: getattr(agent, name) for name in same},
        injection=shown_injection(agent.injection),
        tools=[_tool_view(tool, kbs.get(tool.kb_id)) for tool in agent.tools],
    )


def _tool_view(tool: KnowledgeBaseTool, kb: KnowledgeBase | None) -> ToolView:
    is_broken = kb is None or kb.status is Status.DELETING
    return ToolView(
        tool_id=tool.tool_id,
        type=tool.type,
        kb_id=tool.kb_id,
        kb_name=tool.kb_name if kb is None else kb.name,
        tool_name=tool.tool_name,
        tool_description=tool.tool_description,
        default_top_k=tool.default_top_k,
        default_min_score=tool.default_min_score,
        is_broken=is_broken,
    )
