"""KBs as tools of an agent: adding, changing and removing them, and what one is called that nobody named. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kb_search.authoring.requests import MAX_TOOLS, AddTool
from kb_shared.errors import NotFound, RequestError
from kb_shared.http.problems import invalid_field
from kb_shared.mongo.agents import KnowledgeBaseTool

MAX_NAME: Final = 64
_PREFIX: Final = "search_"
_UNSAFE: Final = re.compile(r"[^a-z0-9]+")


def quick_name(kb_name: str, taken: Collection[str]) -> str:
    """`search_{kb name}` in letters that every model takes, unlike any in `taken`."""
    words = _UNSAFE.sub("_", kb_name.lower()).strip("_") or "knowledge_base"
    name = f"{_PREFIX}{words}"[:MAX_NAME].rstrip("_")
    number = 2
    while name in taken:
        suffix = f"_{number}"
        name = f"{_PREFIX}{words}"[: MAX_NAME - len(suffix)].rstrip("_") + suffix
        number += 1
    return name


def with_tool(
    tools: Sequence[KnowledgeBaseTool], added: AddTool, *, kb_name: str, tool_id: str
) -> list[KnowledgeBaseTool]:
    """Add a KB.

    Raises:
        RequestError: 400 if the KB is a tool already; 422 for a name that is taken, or one tool too many.
    """
    if any(tool.kb_id == added.kb_id for tool in tools):
        raise RequestError(
            400, "tool-exists", "This knowledge base is a tool of the agent already; PATCH that tool instead."
        )
    if len(tools) >= MAX_TOOLS:
        raise RequestError(422, "tool-limit", f"An agent has at most {MAX_TOOLS} tools; remove one first.")
    taken = {tool.tool_name for tool in tools}
    tool = KnowledgeBaseTool(
        tool_id=tool_id,
        kb_id=added.kb_id,
        tool_name=added.tool_name or quick_name(kb_name, taken),
        tool_description=added.tool_description or f"Search {kb_name} knowledge base",
        default_top_k=added.default_top_k,
        default_min_score=added.default_min_score,
        kb_name=kb_name,
    )
    _refuse_taken(tool.tool_name, taken)
    return [*tools, tool]


def with_change(tools: Sequence[KnowledgeBaseTool], tool_id: str, fields: Mapping[str, Any]) -> list[KnowledgeBaseTool]:
    """Change one. Raises NotFound; RequestError 422 for a name that is taken."""
    _find(tools, tool_id)
    _refuse_taken(fields.get("tool_name"), {tool.tool_name for tool in tools if tool.tool_id != tool_id})
    return [replace(tool, **fields) if tool.tool_id == tool_id else tool for tool in tools]


def without_tool(tools: Sequence[KnowledgeBaseTool], tool_id: str) -> list[KnowledgeBaseTool]:
    """Remove one. Raises NotFound."""
    _find(tools, tool_id)
    return [tool for tool in tools if tool.tool_id != tool_id]


def _find(tools: Sequence[KnowledgeBaseTool], tool_id: str) -> None:
    if not any(tool.tool_id == tool_id for tool in tools):
        raise NotFound("tool")


def _refuse_taken(name: str | None, taken: Collection[str]) -> None:
    if name in taken:
        raise invalid_field("tool_name", "Another tool of this agent is called so")
