"""Checks of prompts and agents."""

import json
from typing import Any

import pytest

from kb_client.problems import NotFoundError
from kb_shared.mongo.database import Row
from tests.e2e.operations.comparison import assert_holds, assert_shows, undisturbed
from tests.e2e.operations.knowledge_bases import stored_knowledge_base
from tests.e2e.operations.registry import checks
from tests.e2e.operations.stocked_organization import DEMO, StockedOrganization

SCHEMA = {"type": "object", "properties": {"days": {"type": "integer"}}}


async def stored_prompt(organization: StockedOrganization, prompt_id: str) -> Row:
    return _shown_prompt(await organization.row("prompts", _id=prompt_id))


def _shown_prompt(row: Row) -> Row:
    return {**row, "prompt_id": row["_id"], "answer_schema": json.loads(row["schema"]) if row["schema"] else None}


async def new_prompt(organization: StockedOrganization) -> str:
    return (await organization.client.prompts.create(name="New", content="New.", model=DEMO)).prompt_id


@checks("prompts.create")
async def check_create_prompt(organization: StockedOrganization) -> None:
    given: dict[str, Any] = {"name": "Created", "content": "Answer briefly.", "model": DEMO}
    answer = await organization.client.prompts.create(answer_schema=SCHEMA, kb_ids=[organization.kb_id], **given)
    stored = await stored_prompt(organization, answer.prompt_id)
    assert_shows(answer, stored)
    assert_holds(stored, answer_schema=SCHEMA, kb_ids=[organization.kb_id], created_by=organization.key_id, **given)


@checks("prompts.list")
async def check_list_prompts(organization: StockedOrganization) -> None:
    answer = await organization.client.prompts.list(limit=100)
    rows = (await organization.rows("prompts"))[::-1]
    assert organization.prompt_id in {row["_id"] for row in rows}
    assert answer.total_count == len(rows)
    for prompt, row in zip(answer.prompts, rows, strict=True):
        assert_shows(prompt, _shown_prompt(row))


@checks("prompts.get")
async def check_get_prompt(organization: StockedOrganization) -> None:
    answer = await organization.client.prompts.get(organization.prompt_id)
    assert_shows(answer, await stored_prompt(organization, organization.prompt_id))


@checks("prompts.update")
async def check_update_prompt(organization: StockedOrganization) -> None:
    prompt_id = await new_prompt(organization)
    answer = await organization.client.prompts.update(prompt_id, content="Updated", kb_id=organization.kb_id)
    stored = await stored_prompt(organization, prompt_id)
    assert_shows(answer, stored)
    assert_holds(stored, name="New", content="Updated", kb_ids=[organization.kb_id])


@checks("prompts.delete")
async def check_delete_prompt(organization: StockedOrganization) -> None:
    prompt_id = await new_prompt(organization)
    answer = await organization.client.prompts.delete(prompt_id)
    assert "deleted" in answer.message
    assert not await organization.rows("prompts", _id=prompt_id)
    with pytest.raises(NotFoundError):
        await organization.client.prompts.get(prompt_id)


async def stored_agent(organization: StockedOrganization, agent_id: str) -> Row:
    """Return the row of an agent; a tool has the name of its KB as it is now."""
    row = await organization.row("agents", _id=agent_id)
    names = {kb["_id"]: kb["name"] for kb in await organization.rows("knowledge_bases")}
    tools = [tool | {"kb_name": names[tool["kb_id"]], "is_broken": False} for tool in row["tools"]]
    return {**row, "agent_id": agent_id, "tools": tools}


async def new_agent(organization: StockedOrganization) -> tuple[str, str]:
    """Create an agent with one tool; return their ids."""
    agent = await organization.client.agents.create(name="New", model=DEMO)
    agent = await organization.client.agents.add_tool(agent.agent_id, kb_id=organization.kb_id, tool_name="search_new")
    return agent.agent_id, agent.tools[0].tool_id


@checks("agents.create")
async def check_create_agent(organization: StockedOrganization) -> None:
    given: dict[str, Any] = {"name": "Created", "instructions": "Help.", "model": DEMO, "max_iterations": 3}
    answer = await organization.client.agents.create(**given)
    stored = await stored_agent(organization, answer.agent_id)
    assert_shows(answer, stored)
    assert_holds(stored, tools=[], created_by=organization.key_id, **given)


@checks("agents.list")
async def check_list_agents(organization: StockedOrganization) -> None:
    answer = await organization.client.agents.list(limit=100)
    rows = (await organization.rows("agents"))[::-1]
    assert organization.agent_id in {row["_id"] for row in rows}
    assert answer.total_count == len(rows)
    for agent, row in zip(answer.agents, rows, strict=True):
        assert_shows(agent, await stored_agent(organization, row["_id"]))


@checks("agents.get")
async def check_get_agent(organization: StockedOrganization) -> None:
    answer = await organization.client.agents.get(organization.agent_id)
    assert_shows(answer, await stored_agent(organization, organization.agent_id))
    assert [tool.tool_name for tool in answer.tools] == ["search_staff"]


@checks("agents.update")
async def check_update_agent(organization: StockedOrganization) -> None:
    agent_id, _ = await new_agent(organization)
    answer = await organization.client.agents.update(agent_id, instructions="Updated", max_iterations=2)
    stored = await stored_agent(organization, agent_id)
    assert_shows(answer, stored)
    assert_holds(stored, name="New", instructions="Updated", max_iterations=2, model=DEMO)
    assert len(answer.tools) == 1


@checks("agents.delete")
async def check_delete_agent(organization: StockedOrganization) -> None:
    agent_id, _ = await new_agent(organization)
    answer = await organization.client.agents.delete(agent_id)
    assert "deleted" in answer.message
    assert not await organization.rows("agents", _id=agent_id)
    with pytest.raises(NotFoundError):
        await organization.client.agents.get(agent_id)


@checks("agents.add_tool")
async def check_add_tool(organization: StockedOrganization) -> None:
    agent_id, tool_id = await new_agent(organization)
    given: dict[str, Any] = {
        "tool_name": "search_strictly",
        "tool_description": "Search short texts.",
        "default_top_k": 3,
        "default_min_score": 0.5,
    }
    answer = await organization.client.agents.add_tool(agent_id, kb_id=organization.strict_kb_id, **given)
    stored = await stored_agent(organization, agent_id)
    assert_shows(answer, stored)
    first, second = stored["tools"]
    assert first["tool_id"] == tool_id
    assert_holds(second, kb_id=organization.strict_kb_id, **given)


@checks("agents.update_tool")
async def check_update_tool(organization: StockedOrganization) -> None:
    agent_id, tool_id = await new_agent(organization)
    answer = await organization.client.agents.update_tool(agent_id, tool_id=tool_id, default_top_k=9)
    stored = await stored_agent(organization, agent_id)
    assert_shows(answer, stored)
    assert_holds(stored["tools"][0], tool_id=tool_id, tool_name="search_new", default_top_k=9)


@checks("agents.update_named_tool")
async def check_update_named_tool(organization: StockedOrganization) -> None:
    agent_id, tool_id = await new_agent(organization)
    answer = await organization.client.agents.update_named_tool(agent_id, tool_id=tool_id, tool_name="renamed")
    stored = await stored_agent(organization, agent_id)
    assert_shows(answer, stored)
    assert_holds(stored["tools"][0], tool_id=tool_id, tool_name="renamed", default_top_k=5)


@checks("agents.remove_tool")
async def check_remove_tool(organization: StockedOrganization) -> None:
    agent_id, tool_id = await new_agent(organization)
    answer = await organization.client.agents.remove_tool(agent_id, tool_id=tool_id)
    stored = await stored_agent(organization, agent_id)
    assert_shows(answer, stored)
    assert stored["tools"] == []


@checks("agents.list_available_knowledge_bases")
async def check_available_knowledge_bases(organization: StockedOrganization) -> None:
    async def stored() -> dict[str, Row]:
        rows = await organization.rows("knowledge_bases", status={"$ne": "deleting"})
        return {row["_id"]: await stored_knowledge_base(organization, row["_id"]) for row in rows}

    answer, rows = await undisturbed(
        lambda: organization.client.agents.list_available_knowledge_bases(organization.agent_id), stored
    )
    assert {kb.kb_id for kb in answer.knowledge_bases} == rows.keys()
    for kb in answer.knowledge_bases:
        is_linked = kb.kb_id == organization.kb_id
        assert_shows(kb, rows[kb.kb_id] | {"is_linked": is_linked}, names={"kb_id": "_id"})
