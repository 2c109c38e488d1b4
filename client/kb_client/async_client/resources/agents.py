from collections.abc import Mapping
from typing import Any

from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.agents import AgentList, AgentView, AvailableKnowledgeBases
from kb_contracts.api.model import MessageResponse
from kb_contracts.api.prompt_injection import PromptInjection


class AsyncAgents(AsyncResource):
    """Agents: instructions and tools of a chat model."""

    @operation
    def create(
        self,
        *,
        name: str,
        instructions: str | Unset = UNSET,
        model: str | Unset | None = UNSET,
        max_iterations: int | Unset | None = UNSET,
        auto_search: bool | Unset = UNSET,
        temperature: float | Unset | None = UNSET,
        max_output_tokens: int | Unset | None = UNSET,
        injection: PromptInjection | Mapping[str, Any] | Unset | None = UNSET,
    ) -> ApiCall[AgentView]:
        """Create an agent, without tools."""
        return ApiCall(
            "POST",
            "/agents",
            AgentView,
            body=without_unset(
                {
                    "name": name,
                    "instructions": instructions,
                    "model": model,
                    "max_iterations": max_iterations,
                    "auto_search": auto_search,
                    "temperature": temperature,
                    "max_output_tokens": max_output_tokens,
                    "injection": injection,
                }
            ),
        )

    @operation
    def get(self, agent_id: str) -> ApiCall[AgentView]:
        """Return an agent with its tools."""
        return ApiCall("GET", "/agents/{agent_id}", AgentView, ids={"agent_id": agent_id})

    @operation
    def update(
        self,
        agent_id: str,
        *,
        name: str | Unset | None = UNSET,
        instructions: str | Unset | None = UNSET,
        model: str | Unset | None = UNSET,
        max_iterations: int | Unset | None = UNSET,
        auto_search: bool | Unset | None = UNSET,
        temperature: float | Unset | None = UNSET,
        max_output_tokens: int | Unset | None = UNSET,
        injection: PromptInjection | Mapping[str, Any] | Unset | None = UNSET,
        if_match: str | None = None,
    ) -> ApiCall[AgentView]:
        """Change the given fields.

        Args:
            if_match: `etag` of the version that the change is meant for; another version is not changed.
        """
        return ApiCall(
            "PUT",
            "/agents/{agent_id}",
            AgentView,
            ids={"agent_id": agent_id},
            headers={"If-Match": if_match},
            body=without_unset(
                {
                    "name": name,
                    "instructions": instructions,
                    "model": model,
                    "max_iterations": max_iterations,
                    "auto_search": auto_search,
                    "temperature": temperature,
                    "max_output_tokens": max_output_tokens,
                    "injection": injection,
                }
            ),
        )

    @operation
    def delete(self, agent_id: str) -> ApiCall[MessageResponse]:
        """Delete an agent."""
        return ApiCall("DELETE", "/agents/{agent_id}", MessageResponse, ids={"agent_id": agent_id})

    @operation
    def add_tool(
        self,
        agent_id: str,
        *,
        kb_id: str,
        tool_name: str | Unset | None = UNSET,
        tool_description: str | Unset | None = UNSET,
        default_top_k: int | Unset = UNSET,
        default_min_score: float | Unset | None = UNSET,
    ) -> ApiCall[AgentView]:
        """Add a tool that searches a knowledge base."""
        return ApiCall(
            "POST",
            "/agents/{agent_id}/knowledge-base-tools",
            AgentView,
            ids={"agent_id": agent_id},
            body=without_unset(
                {
                    "kb_id": kb_id,
                    "tool_name": tool_name,
                    "tool_description": tool_description,
                    "default_top_k": default_top_k,
                    "default_min_score": default_min_score,
                }
            ),
        )

    @operation
    def update_tool(
        self,
        agent_id: str,
        *,
        tool_id: str,
        tool_name: str | Unset | None = UNSET,
        tool_description: str | Unset | None = UNSET,
        default_top_k: int | Unset | None = UNSET,
        default_min_score: float | Unset | None = UNSET,
        if_match: str | None = None,
    ) -> ApiCall[AgentView]:
        """Change the given fields of a tool."""
        return ApiCall(
            "PATCH",
            "/agents/{agent_id}/knowledge-base-tools/{tool_id}",
            AgentView,
            ids={"agent_id": agent_id, "tool_id": tool_id},
            headers={"If-Match": if_match},
            body=without_unset(
                {
                    "tool_name": tool_name,
                    "tool_description": tool_description,
                    "default_top_k": default_top_k,
                    "default_min_score": default_min_score,
                }
            ),
        )

    @operation
    def update_named_tool(
        self,
        agent_id: str,
        *,
        tool_id: str,
        tool_name: str | Unset | None = UNSET,
        tool_description: str | Unset | None = UNSET,
        default_top_k: int | Unset | None = UNSET,
        default_min_score: float | Unset | None = UNSET,
        if_match: str | None = None,
    ) -> ApiCall[AgentView]:
        """Change a tool as `update_tool` does, with its id in the body."""
        return ApiCall(
            "PATCH",
            "/agents/{agent_id}/knowledge-base-tools",
            AgentView,
            ids={"agent_id": agent_id},
            headers={"If-Match": if_match},
            body=without_unset(
                {
                    "tool_id": tool_id,
                    "tool_name": tool_name,
                    "tool_description": tool_description,
                    "default_top_k": default_top_k,
                    "default_min_score": default_min_score,
                }
            ),
        )

    @operation
    def remove_tool(self, agent_id: str, *, tool_id: str) -> ApiCall[AgentView]:
        """Remove a tool from an agent."""
        return ApiCall(
            "DELETE",
            "/agents/{agent_id}/tools/{tool_id}",
            AgentView,
            ids={"agent_id": agent_id, "tool_id": tool_id},
        )

    @operation
    def list_available_knowledge_bases(self, agent_id: str) -> ApiCall[AvailableKnowledgeBases]:
        """Return the knowledge bases that can become a tool of the agent."""
        return ApiCall(
            "GET",
            "/agents/{agent_id}/available-knowledge-bases",
            AvailableKnowledgeBases,
            ids={"agent_id": agent_id},
        )

    @listing
    def list(self, *, skip: int | None = None, limit: int | None = None) -> PageCall[AgentList, AgentView]:
        """Return a page of the agents."""
        return PageCall(
            "GET", "/agents", AgentList, query={"skip": skip, "limit": limit}, items=lambda page: page.agents
        )
