"""Stands in for what a run stores: a preview keeps the beginning of some items in memory and changes nothing."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kb_knowledge.sources.source_items import KnownItem, SourceItem

MAX_PREVIEW_ITEMS: Final = 10
_BEGINNING_CHARACTERS: Final = 500


class PreviewedEntries:
    """Keeps what would become entries."""

    def __init__(self) -> None:
        self._items: list[Mapping[str, Any]] = []

    def entry_id_of(self, key: str) -> str:
        return key

    async def check(self, parts: Sequence[SourceItem]) -> None:
        """Refuse nothing."""

    async def write(self, item: SourceItem) -> str:
        self._items.append(
            {
                "key": item.key,
                "title": item.title,
                "source_url": item.url,
                "character_count": len(item.text),
                "beginning": item.text[:_BEGINNING_CHARACTERS],
            }
        )
        return item.key

    async def exists(self, entry_id: str) -> bool:
        del entry_id
        return False

    async def delete(self, entry_id: str) -> None:
        """Delete nothing."""

    @property
    def items(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(self._items)


class NoKnownItems:
    """Items of a source that has never run."""

    async def find(self, key: str) -> KnownItem | None:
        del key
        return None

    async def put(self, item: KnownItem) -> None:
        """Store nothing."""

    async def find_text_states(self) -> Mapping[str, str]:
        return {}

    async def find_entry_ids(self) -> Mapping[str, Sequence[str]]:
        return {}

    async def delete(self, key: str) -> None:
        """Delete nothing."""
