"""Collects the fields of a message that hold thoughts: they go back to the provider with the calls of the message."""

from collections.abc import Mapping
from typing import Any, Final

_TEXTS: Final = ("reasoning_content", "reasoning", "reasoning_text", "thinking", "thought", "thoughts")
_LISTS: Final = ("reasoning_details", "thinking_blocks", "reasoning_items")
_OTHERS: Final = (
    "encrypted_content",
    "extra_content",
    "provider_specific_fields",
    "reasoning_opaque",
    "signature",
    "thought_signature",
)
THOUGHT_FIELDS: Final = frozenset({*_TEXTS, *_LISTS, *_OTHERS})
_TEXTS_OF_BLOCKS: Final = frozenset({"thinking", "text", "summary", "data", "reasoning"})
_ENDS_OF_BLOCKS: Final = ("signature", "encrypted_content")


class ThoughtFields:
    """The fields of one answer."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._lists: dict[str, list[dict[str, Any]]] = {}
        self._others: dict[str, Any] = {}

    def feed(self, message: Mapping[str, Any]) -> None:
        """Take a piece of the message, or the whole one."""
        for name in _TEXTS:
            value = message.get(name)
            if isinstance(value, str):
                self._texts.setdefault(name, []).append(value)
            elif value:
                self._others[name] = value
        for name in _LISTS:
            if isinstance(value := message.get(name), list):
                for block in value:
                    add_block(self._lists.setdefault(name, []), block)
        for name in _OTHERS:
            if value := message.get(name):
                self._others[name] = value

    @property
    def size(self) -> int:
        """Number of characters of the texts so far."""
        return sum(len(text) for texts in self._texts.values() for text in texts)

    def all(self) -> dict[str, Any]:
        """Return the fields, as a whole answer has them."""
        texts = {name: "".join(texts) for name, texts in self._texts.items()}
        return {name: text for name, text in texts.items() if text} | self._lists | self._others


def add_block(blocks: list[dict[str, Any]], block: object) -> None:
    """Add a block of a list, or the next piece of the block before it."""
    if not isinstance(block, Mapping):
        return
    before = blocks[-1] if blocks else None
    if before is None or not _goes_on(before, block):
        blocks.append(dict(block))
        return
    for name, value in block.items():
        if name in _TEXTS_OF_BLOCKS and isinstance(value, str) and isinstance(before.get(name), str):
            before[name] += value
        elif value is not None:
            before[name] = value


def _goes_on(before: Mapping[str, Any], block: Mapping[str, Any]) -> bool:
    if before.get("type") != block.get("type") or before.get("index") != block.get("index"):
        return False
    if before.get("id") and block.get("id") and before["id"] != block["id"]:
        return False
    return not any(before.get(end) for end in _ENDS_OF_BLOCKS)
