"""Applies events to the stored state of their document: first the texts, then the document, in one write for all.

The order of events makes no difference to the state, so events that came together may be applied together.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final

from kb_contracts.documents import DocumentDeleted, DocumentEvent, OcrCompleted, fault_of_last_page, fault_of_length
from kb_contracts.errors import Rejected
from kb_indexer.arrived_event import ArrivedEvent
from kb_indexer.outdated_events import FoldedEvent, announce_outdated
from kb_indexer.state_reader import StateReader
from kb_shared.concurrency.batch_loader import BatchLoader
from kb_shared.concurrency.concurrent_tasks import run_all
from kb_shared.errors import TransientError
from kb_shared.failpoints import reach
from kb_shared.membership.projection import apply
from kb_shared.mongo import citations, document_texts, documents
from kb_shared.mongo.bulk_lookup import OrganizationKey
from kb_shared.mongo.database import Database
from kb_shared.mongo.document_texts import NewText
from kb_shared.mongo.documents import Document, DocumentChange
from kb_shared.mongo.keys import DocumentKey

_MAX_RACES: Final = 20
_REFERRED_AT_ONCE: Final = 8
"""Events whose texts are stored already: such an event is small, and its text may be 20 MB."""


@dataclass(frozen=True, slots=True)
class ReferredText:
    """Text that is stored already, under the id that an event names."""

    identity: str
    length: int
    """Number of its characters."""


@dataclass(frozen=True, slots=True)
class Projection:
    """State of a document after some events."""

    document: Document
    changed_by: Sequence[ArrivedEvent] = ()
    """Events that changed something."""
    folded: Sequence[FoldedEvent] = ()
    has_died: bool = False
    """True if it was without a text after one of the deletions."""


class Projector:
    """Applies the events of one document at a time to what is stored."""

    def __init__(self, database: Database, state_reader: StateReader) -> None:
        self._database = database
        self._state_reader = state_reader
        self._referring = asyncio.Semaphore(_REFERRED_AT_ONCE)
        self._stored = BatchLoader(self._store)
        self._written = BatchLoader(self._write)

    async def project(self, events: Sequence[ArrivedEvent]) -> Projection:
        """Apply one of the runs that `split_for_projection` makes of the events of a document.

        Raises:
            Rejected: the text that an event refers to is not stored, or does not fit to the rest of the event.
        """
        async with self._referring if refers(events[0].event) else nullcontext():
            texts = await self._texts_of(events)
            projection = await self._apply(events, texts)
        if projection.has_died:
            await citations.delete_of_document(self._database, projection.document.key)
        await announce_outdated(self._database, projection.folded)
        return projection

    async def _apply(
        self, events: Sequence[ArrivedEvent], texts: Mapping[ArrivedEvent, NewText | ReferredText]
    ) -> Projection:
        key = events[0].event.organization_id, events[0].event.document_id
        new_texts = {text.identity: text for text in texts.values() if isinstance(text, NewText)}
        for _ in range(_MAX_RACES):
            before = await self._state_reader.document(OrganizationKey(*key))
            # A text that the document refers to already is stored, and is kept while the document refers to it.
            is_there = before.text.text_id if before is not None and before.text is not None else None
            await run_all(self._stored(text) for text_id, text in new_texts.items() if text_id != is_there)
            await reach("fan_out.after_text")
            after = _fold(before or Document(*key), events, texts)
            if before == after.document:
                return after
            if after.has_died and after.document.alive:
                # Before the write: afterwards, nothing would show to a repetition that the document was deleted.
                await citations.delete_of_document(self._database, after.document.key)
            applied = [each.build_applied() for each in after.changed_by]
            if await self._written(DocumentChange(after.document, applied[-1], earlier=applied[:-1])):
                return after
        raise TransientError(f"gave up after {_MAX_RACES} conflicting writes")

    async def _texts_of(self, events: Sequence[ArrivedEvent]) -> dict[ArrivedEvent, NewText | ReferredText]:
        first = events[0].event
        if isinstance(first, OcrCompleted) and refers(first):
            return dict.fromkeys(events, await self._text_of(first))
        return {each: await self._text_of(each.event) for each in events if isinstance(each.event, OcrCompleted)}

    async def _text_of(self, event: OcrCompleted) -> NewText | ReferredText:
        """Return the text to store, or one that is stored already."""
        pages = [(page.page, page.start, page.end) for page in event.pages]
        text, embedding_text = event.text, event.embedding_text
        if event.text_ref is not None:
            referred = await self._find_referred(event, event.text_ref)
            pages = pages or list(referred.pages)
            embedding_text = embedding_text or referred.embedding_text
            if (tuple(pages), embedding_text) == (referred.pages, referred.embedding_text):
                return ReferredText(event.text_ref, len(referred.text))
            text = referred.text
            _check_parts(text, pages=pages, embedding_text=embedding_text)
        key = DocumentKey(event.organization_id, event.document_id)
        return NewText(key, text or "", pages, embedding_text=embedding_text)

    async def _store(self, texts: Sequence[NewText]) -> Mapping[NewText, None]:
        await document_texts.put_all(self._database, texts)
        return {}

    async def _write(self, changes: Sequence[DocumentChange]) -> Mapping[DocumentChange, bool]:
        return dict.fromkeys(await documents.write_all(self._database, changes), True)

    async def _find_referred(self, event: OcrCompleted, reference: str) -> document_texts.StoredText:
        # `touch` makes the text young: the sweep of unused texts must not delete it before the projection refers to it.
        # As a write it also finds a text that a majority read right after an election might not find yet.
        is_there = document_texts.belongs_to(
            reference, DocumentKey(event.organization_id, event.document_id)
        ) and await document_texts.touch(self._database, event.organization_id, reference)
        found = await self._state_reader.text(OrganizationKey(event.organization_id, reference)) if is_there else None
        if found is None:
            # The same answer for a text of another organization and for none: it tells nothing about the other one.
            raise Rejected("unknown-text-ref", "no text is stored under this text_ref for this document")
        return found


def refers(event: DocumentEvent) -> bool:
    """Return whether an event names a text that is stored already."""
    return isinstance(event, OcrCompleted) and event.text_ref is not None


def split_for_projection(events: Sequence[ArrivedEvent]) -> list[list[ArrivedEvent]]:
    """Split events into runs that one write applies. An event that refers to a stored text shares it with copies only:
    the text may be large, and may come in an event before it.
    """
    runs: list[list[ArrivedEvent]] = []
    for each in events:
        if runs and _go_together(runs[-1][0].event, each.event):
            runs[-1].append(each)
        else:
            runs.append([each])
    return runs


def _go_together(one: DocumentEvent, other: DocumentEvent) -> bool:
    return one == other or not (refers(one) or refers(other))


def _fold(
    document: Document, events: Sequence[ArrivedEvent], texts: Mapping[ArrivedEvent, NewText | ReferredText]
) -> Projection:
    """Apply events one after the other."""
    changed_by: list[ArrivedEvent] = []
    folded: list[FoldedEvent] = []
    has_died = False
    for each in events:
        text = texts.get(each)
        text_id, length = (text.identity, text.length) if text is not None else (None, None)
        after = apply(document, each.event, text_id=text_id, text_length=length)
        if after != document:
            changed_by.append(each)
        folded.append(FoldedEvent(each, after, text_id))
        has_died = has_died or (isinstance(each.event, DocumentDeleted) and not after.alive)
        document = after
    return Projection(document, changed_by, folded, has_died=has_died)


def _check_parts(text: str, *, pages: Sequence[tuple[int, int, int]], embedding_text: str | None) -> None:
    """Check what an event says of a text that it refers to, as the contract checks it of a text within the event."""
    if pages and (fault := fault_of_last_page(pages[-1][2], text=text)):
        raise Rejected("bad-data", f"pages.{len(pages) - 1}.end: {fault}")
    if fault := fault_of_length(text, embedding_text=embedding_text):
        raise Rejected("bad-data", f"text: {fault}")
