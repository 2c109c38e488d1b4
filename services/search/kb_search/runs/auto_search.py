"""The search that a run makes before the model speaks, so that models that never call a tool know the passages, too."""

import json
from collections.abc import Sequence
from typing import Final

from kb_contracts.api.search import MAX_QUERY_CHARACTERS
from kb_search.runs.knowledge_tools import KnowledgeTool
from kb_shared.chat.completion import Message, ToolCall

_INTRODUCTION: Final = (
    "A search for the question has returned these passages. Cite those that you use. Search again if they don't "
    "answer the question."
)


def plan_auto_search(question: Sequence[Message], tools: Sequence[KnowledgeTool]) -> list[ToolCall]:
    """Return a call of each tool for the last message of the question, as the model would make it."""
    query = str(question[-1]["content"]).strip()[:MAX_QUERY_CHARACTERS] if question else ""
    if not query:
        return []
    arguments = json.dumps({"query": query}, ensure_ascii=False)
    return [ToolCall(f"auto_search_{number}", tool.name, arguments) for number, tool in enumerate(tools, start=1)]


def build_context(results: Sequence[str]) -> Message:
    """Build the message with the results of the search, which precedes the question."""
    return {"role": "user", "content": "\n".join([_INTRODUCTION, *results])}
