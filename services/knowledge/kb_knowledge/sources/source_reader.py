"""Reads items of one kind of source; there is an implementation for each kind."""

from typing import Protocol

from kb_knowledge.sources.frontier import FrontierItem
from kb_knowledge.sources.read_items import ReadItem


class SourceReader(Protocol):
    """Reads a source in one run."""

    async def begin(self) -> None:
        """Put the first items into the frontier; those that it has are ignored.

        Raises:
            SourceUnusable: nothing of the source can be read.
        """

    async def read(self, item: FrontierItem) -> ReadItem:
        """Read an item and store its entry."""
