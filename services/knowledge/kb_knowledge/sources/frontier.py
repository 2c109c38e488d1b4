"""The items that a run still has to read, and those that it has read. A run that is killed continues from it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Protocol

from kb_knowledge.sources.source_items import ItemOutcome, SourceItem, Validators

MAX_ITEMS: Final = 5_000
"""Number of items of a run, read or not. Further ones are ignored."""
_LAST: Final = 1_000
"""Rank after those of all pages."""


class FrontierKind(StrEnum):
    SITEMAP = "sitemap"
    PAGE = "page"
    """A page, or an item of another kind of source."""
    KNOWN = "known"
    """Stands for the items of earlier runs that this run has not found; when all others are read, they are added."""


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
        """Return its place: sitemaps first, then the pages near the first page, and what is known at the end."""
        match self.kind:
            case FrontierKind.SITEMAP:
                return -1
            case FrontierKind.KNOWN:
                return _LAST
        return self.depth


@dataclass(frozen=True, slots=True)
class ClaimedItem:
    item: FrontierItem
    attempt: int
    """1 for the first; more after a runner that ended while it read the item."""


@dataclass(frozen=True, slots=True)
class HeldItem:
    """A changed item, which is stored when the run has read the others: many with one text are not what they were."""

    item: SourceItem
    validators: Validators
    links: tuple[str, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FinishedItem:
    """Result of an item that was read."""

    outcome: ItemOutcome
    key: str | None = None
    """Key of the source's item that it is; None if it is none."""
    bytes_read: int = 0
    message: str | None = None
    """Why it failed, or was left out."""
    warnings: int = 0
    """Number of warnings about its text."""
    text_digest: str | None = None
    """Digest of its text, which is equal for texts that say the same."""
    text_before: str | None = None
    """State of its text before this run, which differs from that of another text; None of a new item."""
    held: HeldItem | None = None


@dataclass(slots=True)
class FrontierTotals:
    outcomes: dict[ItemOutcome, int] = field(default_factory=dict)
    """Number of items that were read, by outcome; without sitemaps."""
    items: int = 0
    """Number of all items, read or not, with sitemaps."""
    bytes_read: int = 0
    warned: int = 0
    """Number of items with warnings."""

    @property
    def pages_read(self) -> int:
        return sum(count for outcome, count in self.outcomes.items() if outcome is not ItemOutcome.REDIRECTED)

    @property
    def requests(self) -> int:
        return sum(self.outcomes.values())

    def count(self, item: FrontierItem, finished: FinishedItem) -> None:
        if item.kind is FrontierKind.PAGE:
            self.outcomes[finished.outcome] = self.outcomes.get(finished.outcome, 0) + 1
        self.bytes_read += finished.bytes_read
        self.warned += bool(finished.warnings)


class Frontier(Protocol):
    """Items of one run, which one runner reads."""

    async def add(self, items: Sequence[FrontierItem]) -> None:
        """Add items at the end of those with the same rank. Those that it has, read or not, are ignored."""

    async def claim_next(self) -> ClaimedItem | None:
        """Return the next item to read: one that was taken and not finished, or the first one."""

    async def finish(self, item: FrontierItem, finished: FinishedItem) -> None:
        """Mark an item that was taken as read."""

    async def totals(self) -> FrontierTotals: ...

    async def find_first_failure(self) -> str | None:
        """Return address and message of the first item that failed."""

    async def find_robots(self, origin: str) -> tuple[int, bytes] | None:
        """Return status and contents of a robots.txt that this run has read."""

    async def put_robots(self, origin: str, *, status: int, body: bytes) -> None: ...


class FrontierInMemory:
    """A frontier that ends with the process, for previews."""

    def __init__(self) -> None:
        self._items: dict[str, FrontierItem] = {}
        self._first_failure: str | None = None
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

    async def finish(self, item: FrontierItem, finished: FinishedItem) -> None:
        del self._waiting[item.address]
        self._totals.count(item, finished)
        if finished.outcome is ItemOutcome.FAILED:
            self._first_failure = self._first_failure or f"{item.address}: {finished.message}"

    async def totals(self) -> FrontierTotals:
        return replace(self._totals, outcomes=dict(self._totals.outcomes), items=len(self._items))

    async def find_first_failure(self) -> str | None:
        return self._first_failure

    async def find_robots(self, origin: str) -> tuple[int, bytes] | None:
        return self._robots.get(origin)

    async def put_robots(self, origin: str, *, status: int, body: bytes) -> None:
        self._robots[origin] = (status, body)
