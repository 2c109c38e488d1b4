"""Adds, changes and removes the tools of an agent, and names a tool that has no name. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kb_contracts.api.agents import MAX_TOOLS, AddTool
from kb_search.runs.knowledge_tools import MAX_DESCRIPTION_CHARACTERS
from kb_shared.errors import NotFound, RequestError
from kb_shared.http.problems import invalid_field
from kb_shared.mongo.agents import KnowledgeBaseTool

MAX_NAME: Final = 64
_PREFIX: Final = "search_"
_UNSAFE: Final = re.compile(r"[^a-z0-9]+")


def default_tool_name(kb_name: str, taken: Collection[str]) -> str:
    """Return `search_{kb_name}` in characters that every model accepts, different from all names in `taken`."""
    words = _UNSAFE.sub("_", kb_name.lower()).strip("_") or "knowledge_base"
    name = f"{_PREFIX}{words}"[:MAX_NAME].rstrip("_")
    number = 2
    while name in taken:
        suffix = f"_{number}"
        name = f"{_PREFIX}{words}"[: MAX_NAME - len(suffix)].rstrip("_") + suffix
        number += 1
    return name


def default_tool_description(kb_name: str, contents: str = "") -> str:
    """Describe a tool by the name of its KB, and by what the KB says that it contains."""
    said = " ".join(contents.split())
    return f"Search {kb_name} knowledge base{f': {said}' if said else ''}"[:MAX_DESCRIPTION_CHARACTERS]


def append_tool(
    tools: Sequence[KnowledgeBaseTool], added: AddTool, *, kb_name: str, kb_description: str = "", tool_id: str
) -> list[KnowledgeBaseTool]:
    """Add a KB as a tool.

    Raises:
        RequestError: 400 if the KB is a tool already; 422 if the name is taken or the agent has too many tools.
    """
    if any(tool.kb_id == added.kb_id for tool in tools):
        raise RequestError(
            400,
            "tool-exists",
            "This knowledge base is already a tool of the agent; PATCH that tool instead.",
        )
    if len(tools) >= MAX_TOOLS:
        raise RequestError(422, "tool-limit", f"An agent has at most {MAX_TOOLS} tools; remove one first.")
    taken = {tool.tool_name for tool in tools}
    tool = KnowledgeBaseTool(
        tool_id=tool_id,
        kb_id=added.kb_id,
        tool_name=added.tool_name or default_tool_name(kb_name, taken),
        tool_description=added.tool_description or default_tool_description(kb_name, kb_description),
        default_top_k=added.default_top_k,
        default_min_score=added.default_min_score,
        kb_name=kb_name,
    )
    _require_free_name(tool.tool_name, taken)
    return [*tools, tool]


def replace_tool(
    tools: Sequence[KnowledgeBaseTool], tool_id: str, *, fields: Mapping[str, Any]
) -> list[KnowledgeBaseTool]:
    """Change a tool. Raises NotFound; RequestError 422 if the name is taken."""
    _find(tools, tool_id)
    _require_free_name(fields.get("tool_name"), {tool.tool_name for tool in tools if tool.tool_id != tool_id})
    return [replace(tool, **fields) if tool.tool_id == tool_id else tool for tool in tools]


def drop_tool(tools: Sequence[KnowledgeBaseTool], tool_id: str) -> list[KnowledgeBaseTool]:
    """Remove a tool. Raises NotFound."""
    _find(tools, tool_id)
    return [tool for tool in tools if tool.tool_id != tool_id]


def _find(tools: Sequence[KnowledgeBaseTool], tool_id: str) -> None:
    if not any(tool.tool_id == tool_id for tool in tools):
        raise NotFound("tool")


def _require_free_name(name: str | None, taken: Collection[str]) -> None:
    if name in taken:
        raise invalid_field("tool_name", "must be another name: a tool of this agent has this one")
