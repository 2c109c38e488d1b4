"""Recognizes texts of a model that are no answers, and JSON within a fence. Pure.

Models that were not trained for tools write a call as text, in as many forms as there are models: what these have in
common is the name of the tool beside its arguments.
"""

import re
from collections.abc import Sequence
from typing import Final

_CALL_TOKENS: Final = re.compile(r"<tool_call>|<function=|<\|tool_call|\[TOOL_CALLS\]|<\|python_tag\|>", re.IGNORECASE)
_ONLY_MARKS: Final = re.compile(
    r"\s*+(?:(?:[\[\u3010\u3014\uff3b]{1,2}+\s*+(?:\^|s|source\s|passage\s|document\s|quelle\s)?\d"
    r"[^\[\]\u3010\u3011\u3014\u3015\uff3b\uff3d]{0,40}+[\]\u3011\u3015\uff3d]{1,2}+"
    r"|[\u00b9\u00b2\u00b3\u2070-\u2079])[\s.,;]*+)+",
    re.IGNORECASE,
)
_FENCED: Final = re.compile(r"[^{}\[\]`]*```[a-z]*[ \t]*\n?(?P<inner>[^`]*)\n?[ \t]*```[^{}\[\]`]*", re.IGNORECASE)


def is_written_call(text: str, tools: Sequence[str]) -> bool:
    """Return whether a text is a call of one of these tools, and so no answer."""
    if not tools:
        return False
    if _CALL_TOKENS.search(text):
        return True
    name = rf"(?:functions?\.)?(?:{'|'.join(map(re.escape, tools))})"
    written = re.compile(rf'["\']{name}["\']\s*[,:}}]|\b{name}\s*\(\s*(?:[{{"\']|query\b|\))')
    return written.search(text) is not None


def has_only_marks(text: str) -> bool:
    """Return whether a text consists of citations alone, such as `[1]`."""
    return _ONLY_MARKS.fullmatch(text) is not None


def without_fence(text: str) -> str:
    """Return what stands in the only fence of a text, with a few words around it; any other text as it is."""
    fenced = _FENCED.fullmatch(text)
    return text if fenced is None else fenced["inner"].strip()
