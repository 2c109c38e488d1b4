"""The search that a run makes with its question, so that models that never call a tool know the passages, too. Pure."""

import json
from collections.abc import Sequence
from typing import Final

from kb_contracts.api.search import MAX_QUERY_CHARACTERS
from kb_search.runs.knowledge_tools import KnowledgeTool
from kb_shared.chat.completion import ToolCall

_QUESTIONS_BEFORE: Final = 2
"""Questions of the conversation that are searched with the last one, which may name its subject as `it`."""
_CHARACTERS_BEFORE: Final = 600


def plan_auto_search(questions: Sequence[str], tools: Sequence[KnowledgeTool]) -> list[ToolCall]:
    """Return a call of each tool for the last question of a conversation, as the model would make it."""
    query = build_query(questions)
    if not query:
        return []
    arguments = json.dumps({"query": query}, ensure_ascii=False)
    return [ToolCall(f"auto_search_{number}", tool.name, arguments) for number, tool in enumerate(tools, start=1)]


def build_query(questions: Sequence[str]) -> str:
    """Return the last question, after those before it as far as they are short."""
    *before, question = ["", *map(str.strip, questions)]
    query = question[:MAX_QUERY_CHARACTERS].rstrip()
    if not query:
        return ""
    before = [each for each in dict.fromkeys(before) if each and each != question]
    for earlier in reversed(before[-_QUESTIONS_BEFORE:]):
        longer = f"{earlier} {query}"
        if len(earlier) > _CHARACTERS_BEFORE or len(longer) > MAX_QUERY_CHARACTERS:
            break
        query = longer
    return query
