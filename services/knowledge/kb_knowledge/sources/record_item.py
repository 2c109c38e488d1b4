"""Stores the text of an item as an entry, or as several, unless it is the same as in the last run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kb_knowledge.sources.source_items import (
    MAX_TITLE_CHARACTERS,
    ItemOutcome,
    ItemRefused,
    KnownItem,
    KnownItems,
    KnownPart,
    SourceEntries,
    SourceItem,
    Validators,
)
from kb_knowledge.sources.split_item import split_item
from kb_shared import failpoints

_BEING_CHANGED: Final = "being changed"
"""Digest of a part whose entry exists, with its former text or with its new one."""
_MAX_WARNINGS: Final = 10
"""Number of warnings of an item that are kept for runs in which it is not sent again."""


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
        warnings: tuple[str, ...] = (),
    ) -> RecordedItem:
        """Store an item, of a long one those parts that have changed.

        Args:
            item: what the run has read.
            known: the same item in an earlier run.
            validators: what the server gave with it.
            links: where it leads.
            warnings: what the parser said of its text.
        """
        item = replace(item, title=item.title[:MAX_TITLE_CHARACTERS])
        row = KnownItem(
            item.key,
            self.entries.entry_id_of(item.key),
            item.digest,
            validators or Validators(),
            links,
            text_digest=item.text_digest,
            warnings=warnings[:_MAX_WARNINGS],
        )
        if known is not None and known.digest == item.digest:
            await self.known_items.put(replace(row, entry_id=known.entry_id, parts=known.parts))
            return RecordedItem(ItemOutcome.UNCHANGED)
        stored = {part.key: part for part in known.stored_parts} if known else {}
        try:
            parts = await self._write(row, split_item(item), stored)
        except ItemRefused as refused:
            return RecordedItem(ItemOutcome.FAILED, str(refused))
        await self.known_items.put(replace(row, parts=parts if len(parts) > 1 else ()))
        is_new = not any(part.digest for part in stored.values())
        return RecordedItem(ItemOutcome.CREATED if is_new else ItemOutcome.UPDATED)

    async def _write(
        self, row: KnownItem, parts: Sequence[SourceItem], stored: Mapping[str, KnownPart]
    ) -> tuple[KnownPart, ...]:
        """Store the parts that are new or have changed, and delete the entries of those that are gone."""
        wanted = {part.key: KnownPart(part.key, self.entries.entry_id_of(part.key), part.digest) for part in parts}
        changed = [part for part in parts if part.key not in stored or stored[part.key].digest != part.digest]
        await self.entries.check(changed)
        # After a crash, the next run asks for the whole item, and knows each entry that may have been stored.
        begun = {
            part.key: replace(wanted[part.key], digest=_BEING_CHANGED if part.key in stored else "") for part in changed
        }
        unfinished = replace(row, digest="", validators=Validators())
        await self.known_items.put(replace(unfinished, parts=tuple({**stored, **begun}.values())))
        written = dict(stored)
        try:
            for part in changed:
                await self.entries.write(part)
                written[part.key] = wanted[part.key]
                await failpoints.reach("source.after_entry")
        except ItemRefused:
            await self._keep(unfinished, tuple(written.values()))
            raise
        for key in stored.keys() - wanted.keys():
            await self.entries.delete(stored[key].entry_id)
        return tuple(wanted.values())

    async def _keep(self, unfinished: KnownItem, parts: tuple[KnownPart, ...]) -> None:
        """Keep what is stored of an item of which a part was refused; the next run tries the others again."""
        if parts:
            await self.known_items.put(replace(unfinished, parts=parts))
        else:
            await self.known_items.delete(unfinished.key)
