"""Stores the items that a run has held because they have changed, unless many of them suddenly have one text.

A server that asks for a login, or is under maintenance, answers for all its pages with one, and with the status 200.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from kb_knowledge.sources.read_items import MessageLog
from kb_knowledge.sources.record_item import ItemRecorder, RecordedItem
from kb_knowledge.sources.source_items import ItemOutcome
from kb_knowledge.store.crawl_frontier import StoredFrontier
from kb_shared import failpoints
from kb_shared.observability.metrics import SOURCE_ITEMS

_ONE_TEXT: Final = (
    "other pages that had other texts have the same text now, so its entry stays as it was; delete the entry if that "
    "is what the page says from now on"
)


async def settle_held_items(
    frontier: StoredFrontier, recorder: ItemRecorder, *, renew: Callable[[], Awaitable[None]], messages: MessageLog
) -> None:
    """Store what is held. A runner that takes over after a crash does the rest, with the same decisions.

    Args:
        frontier: of a run that has read what it could.
        recorder: stores the items.
        renew: keeps the run, and raises if another runner has it.
        messages: of the run.
    """
    common = await frontier.find_common_texts()
    for address in await frontier.find_held():
        await renew()
        held, text_digest = await frontier.get_held(address)
        known = await recorder.known_items.find(address)
        if text_digest in common and known is not None and await recorder.entries.exists(known.entry_id):
            recorded = RecordedItem(ItemOutcome.FAILED, _ONE_TEXT)
        else:
            recorded = await recorder.record(
                held.item, known=known, validators=held.validators, links=held.links, warnings=held.warnings
            )
        if recorded.problem:
            await messages.add(f"{address}: {recorded.problem}")
        SOURCE_ITEMS.labels(recorded.outcome).inc()
        await frontier.settle_held_item(address, recorded.outcome, message=recorded.problem)
        await failpoints.reach("source.after_settling")
