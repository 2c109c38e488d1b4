"""Reads the items of a run, one after the other, until none is left or a limit is reached."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from kb_knowledge.sources.frontier import FinishedItem, Frontier, FrontierItem, FrontierKind, FrontierTotals, HeldItem
from kb_knowledge.sources.source_items import ItemOutcome
from kb_shared import failpoints
from kb_shared.observability.metrics import SOURCE_BYTES, SOURCE_ITEMS

MAX_ATTEMPTS: Final = 3
"""Number of times that an item is read. One that ends the runner each time is not read again."""
MAX_FAILURES_AT_ONCE: Final = 10
"""Number of items in a row that may fail before the source counts as unreachable."""


@dataclass(frozen=True, slots=True)
class ReadItem:
    """Result of reading an item."""

    outcome: ItemOutcome
    key: str | None = None
    """Key of the source's item; None if the source does not have it any more."""
    message: str | None = None
    bytes_read: int = 0
    found: tuple[FrontierItem, ...] = ()
    """Items that it leads to."""
    problem: str | None = None
    """Why the source as a whole can't be read as it is meant to be, in words."""
    has_answered: bool = False
    """True of an item that failed although its source can be reached."""
    warnings: tuple[str, ...] = ()
    """Sentences of the parser on what is missing in the text or was guessed."""
    text_digest: str | None = None
    text_before: str | None = None
    """State of the text before this run, which differs from that of another text."""
    held: HeldItem | None = None

    def to_finished(self) -> FinishedItem:
        return FinishedItem(
            self.outcome,
            self.key,
            self.bytes_read,
            self.message,
            len(self.warnings),
            self.text_digest,
            self.text_before,
            self.held,
        )


class SourceUnusable(Exception):
    """A source of which nothing can be read. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    max_items: int
    max_bytes: int


class MessageLog(Protocol):
    async def add(self, message: str) -> None:
        """Keep a message for the users of the source."""


async def read_items(
    frontier: Frontier,
    read: Callable[[FrontierItem], Awaitable[ReadItem]],
    *,
    limits: ReadLimits,
    messages: MessageLog,
) -> str | None:
    """Read all items of a frontier, also those that are found meanwhile.

    Returns:
        Why items were left out, in words: the problem of an item that leads to others, or a limit; None if none were.

    Raises:
        SourceUnusable: item after item failed.
    """
    failures = 0
    problem: str | None = None
    totals = await frontier.totals()
    while taken := await frontier.claim_next():
        item = taken.item
        await failpoints.reach("source.after_take")
        if item.kind is not FrontierKind.KNOWN and (limit := _reached_limit(totals, limits)):
            return problem or limit
        if taken.attempt > MAX_ATTEMPTS:
            read_item = ReadItem(ItemOutcome.FAILED, message="the runner ended each time it was read; leave it out")
        else:
            read_item = await read(item)
        problem = problem or read_item.problem
        await frontier.add(read_item.found)
        await failpoints.reach("source.after_links")
        for message in filter(None, (read_item.message, *(f"warning: {each}" for each in read_item.warnings))):
            await messages.add(f"{item.address}: {message}")
        finished = read_item.to_finished()
        await frontier.finish(item, finished)
        totals.count(item, finished)
        await failpoints.reach("source.after_finish")
        SOURCE_BYTES.inc(read_item.bytes_read)
        if item.kind is FrontierKind.PAGE:
            if read_item.held is None:
                SOURCE_ITEMS.labels(read_item.outcome).inc()
            has_failed = read_item.outcome is ItemOutcome.FAILED and not read_item.has_answered
            failures = failures + 1 if has_failed else 0
        if failures >= MAX_FAILURES_AT_ONCE:
            raise SourceUnusable(f"{failures} items in a row failed; see the messages of the run")
    return problem


def _reached_limit(totals: FrontierTotals, limits: ReadLimits) -> str | None:
    # A site that answers each request with a redirect ends, too.
    if totals.pages_read >= limits.max_items or totals.requests >= 2 * limits.max_items:
        return f"the limit of {limits.max_items} items was reached; others were not read"
    if totals.bytes_read >= limits.max_bytes:
        return f"the limit of {limits.max_bytes} bytes was reached; other items were not read"
    return None
