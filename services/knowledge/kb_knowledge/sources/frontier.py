"""The items that a run still has to read, and those that it has read. A run that is killed continues from it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from kb_knowledge.sources.source_items import ItemOutcome

MAX_ITEMS: Final = 5_000
"""Number of items of a run, read or not. Further ones are ignored."""


class FrontierKind(StrEnum):
    SITEMAP = "sitemap"
    PAGE = "page"
    """A page, or an item of another kind of source."""


@dataclass(frozen=True, slots=True)
class FrontierItem:
    address: str
    """Canonical address, or whatever else identifies the item in its source."""
    kind: FrontierKind = FrontierKind.PAGE
    depth: int = 0
    """Number of links that lead from the first page to it."""
    redirects: int = 0
    """Number of redirects that lead to it."""

    @property
    def rank(self) -> int:
        """Return its place: sitemaps first, then the pages near the first page."""
        return -1 if self.kind is FrontierKind.SITEMAP else self.depth


@dataclass(frozen=True, slots=True)
class ClaimedItem:
    item: FrontierItem
    attempt: int
    """1 for the first; more after a runner that ended while it read the item."""


@dataclass(slots=True)
class FrontierTotals:
    outcomes: dict[ItemOutcome, int] = field(default_factory=dict)
    """Number of items that were read, by outcome; without sitemaps."""
    items: int = 0
    """Number of all items, read or not, with sitemaps."""
    bytes_read: int = 0

    @property
    def pages_read(self) -> int:
        return sum(count for outcome, count in self.outcomes.items() if outcome is not ItemOutcome.REDIRECTED)

    @property
    def requests(self) -> int:
        return sum(self.outcomes.values())

    def count(self, item: FrontierItem, outcome: ItemOutcome, *, bytes_read: int) -> None:
        if item.kind is FrontierKind.PAGE:
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self.bytes_read += bytes_read


class Frontier(Protocol):
    """Items of one run, which one runner reads."""

    async def add(self, items: Sequence[FrontierItem]) -> None:
        """Add items at the end of those with the same rank. Those that it has, read or not, are ignored."""

    async def claim_next(self) -> ClaimedItem | None:
        """Return the next item to read: one that was taken and not finished, or the first one."""

    async def finish(self, item: FrontierItem, outcome: ItemOutcome, *, key: str | None, bytes_read: int) -> None:
        """Mark an item as read.

        Args:
            item: what was taken.
            outcome: what became of it.
            key: key of the source's item that it is; None if it is none.
            bytes_read: length of what was read.
        """

    async def totals(self) -> FrontierTotals: ...

    async def find_seen_keys(self) -> set[str]:
        """Return the keys of the items that the source still has."""

    async def find_robots(self, origin: str) -> tuple[int, bytes] | None:
        """Return status and contents of a robots.txt that this run has read."""

    async def put_robots(self, origin: str, *, status: int, body: bytes) -> None: ...


class FrontierInMemory:
    """A frontier that ends with the process, for previews."""

    def __init__(self) -> None:
        self._items: dict[str, FrontierItem] = {}
        self._seen_keys: set[str] = set()
        self._waiting: dict[str, FrontierItem] = {}
        self._robots: dict[str, tuple[int, bytes]] = {}
        self._totals = FrontierTotals()

    async def add(self, items: Sequence[FrontierItem]) -> None:
        for item in items:
            if item.address not in self._items and len(self._items) < MAX_ITEMS:
                self._items[item.address] = self._waiting[item.address] = item

    async def claim_next(self) -> ClaimedItem | None:
        if not self._waiting:
            return None
        return ClaimedItem(min(self._waiting.values(), key=lambda item: item.rank), attempt=1)

    async def finish(self, item: FrontierItem, outcome: ItemOutcome, *, key: str | None, bytes_read: int) -> None:
        del self._waiting[item.address]
        if key is not None:
            self._seen_keys.add(key)
        self._totals.count(item, outcome, bytes_read=bytes_read)

    async def totals(self) -> FrontierTotals:
        return FrontierTotals(dict(self._totals.outcomes), len(self._items), self._totals.bytes_read)

    async def find_seen_keys(self) -> set[str]:
        return self._seen_keys

    async def find_robots(self, origin: str) -> tuple[int, bytes] | None:
        return self._robots.get(origin)

    async def put_robots(self, origin: str, *, status: int, body: bytes) -> None:
        self._robots[origin] = (status, body)
