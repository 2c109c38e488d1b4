"""Stores the text of an item as an entry, unless it is the same as in the last run."""

from dataclasses import dataclass

from kb_client.files.source_digest import READER_VERSION
from kb_knowledge.sources.source_items import (
    MAX_TEXT_CHARACTERS,
    MAX_TITLE_CHARACTERS,
    ItemOutcome,
    ItemRefused,
    KnownItem,
    KnownItems,
    SourceEntries,
    SourceItem,
    Validators,
)
from kb_shared import failpoints


@dataclass(frozen=True, slots=True)
class RecordedItem:
    outcome: ItemOutcome
    problem: str | None = None
    """Reason of a failure."""


@dataclass(frozen=True, slots=True)
class ItemRecorder:
    """Stores the items of one source."""

    entries: SourceEntries
    known_items: KnownItems

    async def record(
        self,
        item: SourceItem,
        *,
        known: KnownItem | None,
        validators: Validators | None = None,
        links: tuple[str, ...] = (),
    ) -> RecordedItem:
        """Store an item.

        Args:
            item: what the run has read.
            known: the same item in an earlier run.
            validators: what the server gave with it.
            links: where it leads.
        """
        if len(item.text) > MAX_TEXT_CHARACTERS:
            return RecordedItem(
                ItemOutcome.FAILED, f"its text has more than {MAX_TEXT_CHARACTERS} characters; split it"
            )
        item = SourceItem(item.key, item.title[:MAX_TITLE_CHARACTERS], item.text, item.url)
        outcome = ItemOutcome.UNCHANGED
        if known is not None and known.digest == item.digest:
            entry_id = known.entry_id
        else:
            try:
                entry_id = await self.entries.write(item)
            except ItemRefused as refused:
                return RecordedItem(ItemOutcome.FAILED, str(refused))
            outcome = ItemOutcome.CREATED if known is None else ItemOutcome.UPDATED
        # After a crash the entry is written again, which changes nothing.
        await failpoints.reach("source.after_entry")
        await self.known_items.put(
            KnownItem(item.key, entry_id, item.digest, validators or Validators(), links, READER_VERSION)
        )
        return RecordedItem(outcome)
