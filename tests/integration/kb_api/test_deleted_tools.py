"""What becomes of agents' tools when their KB is deleted."""

from datetime import UTC, datetime

import pytest

from kb_shared.identifiers import new_id
from kb_shared.mongo import agents, knowledge_bases
from kb_shared.mongo.agents import Agent, KnowledgeBaseTool
from kb_shared.mongo.keys import AgentKey, KnowledgeBaseKey
from tests.integration.kb_api.organization import OrganizationClient
from tests.waiting import until


def tool(kb_id: str, name: str | None) -> KnowledgeBaseTool:
    return KnowledgeBaseTool(
        new_id(), kb_id, f"search_{kb_id}", "Search", default_top_k=5, default_min_score=0.0, kb_name=name
    )


@pytest.mark.usefixtures("living")
async def test_a_tool_keeps_the_last_name_of_a_knowledge_base_that_is_deleted(organization: OrganizationClient) -> None:
    kb_id, other = [(await organization.create(name=name))["kb_id"] for name in ("First", "Other")]
    database, organization_id = organization.database, organization.organization_id
    # A tool that was made before names were kept has none.
    tools = (tool(kb_id, None), tool(other, "Other"))
    now = datetime.now(UTC)
    agent = Agent(new_id(), organization_id, "A", "", "m", None, tools, 1, now, now, "k", "k")
    await agents.insert(database, agent)
    await organization.ok("PUT", f"/knowledge-bases/{kb_id}", json={"name": "Last"})
    await organization.ok("DELETE", f"/knowledge-bases/{kb_id}")

    async def gone() -> bool:
        return await knowledge_bases.find(database, KnowledgeBaseKey(organization_id, kb_id)) is None

    await until(gone)
    after = await agents.get(database, AgentKey(organization_id, agent.agent_id))
    assert [each.kb_name for each in after.tools] == ["Last", "Other"]
    stale = await agents.set_tools(database, agent, [*tools], by="k")
    assert stale is None, "a change that has read the tools before does not bring the old name back"
