"""Watches how far the knowledge base of a push is, in passages, while the push waits for its documents."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kb_client.command_line.counts import count_passages, describe_seconds
from kb_client.command_line.push.display import PushDisplay
from kb_client.errors import KbClientError

if TYPE_CHECKING:
    from kb_client.async_client.client import AsyncClient
    from kb_contracts.api.knowledge_bases import KnowledgeBaseStats, KnowledgeBaseView

_LOOK_EVERY_S: Final = 2.0
_WORTH_SAYING_S: Final = 10.0
"""Time from which on a push says at its start how long it takes."""


@dataclass(slots=True)
class IndexingWatch:
    """Collects what the statistics of its knowledge base say of a push, one after the other.

    Args:
        kb: as it was before the push.
    """

    kb: "KnowledgeBaseView"
    passages_done: int = 0
    passages: int = 0
    """Number of passages of this push, estimated until all texts are cut."""
    seconds_left: float | None = None
    announcement: str | None = None
    """Sentence that says how long it takes, from the first time that this is known."""
    has_moved: bool = False
    """True if anything was indexed between the last two looks."""
    _undone: int | None = None
    _last: tuple[int, int] | None = None

    def look(self, stats: "KnowledgeBaseStats", *, all_sent: bool) -> None:
        """Take over what `stats` say. There is no time left to tell while documents are still on their way there."""
        undone = stats.states.pending + stats.states.running + stats.states.paused
        all_known = all_sent and self._undone is not None and undone <= self._undone
        moment = (stats.remaining_chunk_count, stats.chunk_count)
        self.has_moved, self._undone, self._last = moment != self._last, undone, moment
        left = stats.remaining_chunk_count
        if stats.progress < 1:
            self.passages_done = max(0, round(left / (1 - stats.progress)) - left - self.kb.chunk_count)
        else:
            self.passages_done = max(0, stats.chunk_count - self.kb.chunk_count)
        self.passages = self.passages_done + left
        self.seconds_left = stats.eta_s if all_known else None
        if self.announcement is None and self.seconds_left is not None and self.seconds_left >= _WORTH_SAYING_S:
            self.announcement = (
                f"about {count_passages(left)} to index with {self.kb.embedding_model}, at its pace here: "
                f"{describe_seconds(self.seconds_left)}"
            )


@asynccontextmanager
async def watching_indexing(
    client: "AsyncClient", kb_id: str | None, *, display: PushDisplay, on_progress: Callable[[], None]
) -> AsyncIterator[None]:
    """Show during the block how far the knowledge base is; nothing if only tags are named, or the key may not read it.

    Args:
        client: of the organization.
        kb_id: the knowledge base.
        display: shows it.
        on_progress: called when something was indexed.
    """
    watching = asyncio.create_task(_watch(client, kb_id, display=display, on_progress=on_progress)) if kb_id else None
    try:
        yield
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])


async def _watch(client: "AsyncClient", kb_id: str, *, display: PushDisplay, on_progress: Callable[[], None]) -> None:
    try:
        watch = IndexingWatch(await client.knowledge_bases.get(kb_id))
    except KbClientError:
        return
    said = False
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        try:
            watch.look(await client.knowledge_bases.get_stats(kb_id), all_sent=display.all_sent)
        except KbClientError:
            continue
        if watch.has_moved:
            on_progress()
        display.show_passages(watch.passages_done, total=watch.passages, seconds_left=watch.seconds_left)
        if watch.announcement is not None and not said:
            said = True
            display.say(watch.announcement)
