"""Stores what a source consists of as entries, through the use case that writes all entries."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from kb_contracts.documents import fault_of_length
from kb_knowledge.sources.source_items import ContentRefused, ItemRefused, SourceItem
from kb_knowledge.store.knowledge_sources import KnowledgeSource
from kb_knowledge.write_entries import EntryWriter
from kb_shared.errors import NotFound, RequestError
from kb_shared.mongo import knowledge_entries
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.knowledge_entries import EntryKey, KnowledgeEntry, hash_content
from kb_shared.mongo.stored_time import now
from kb_shared.text.content_check import check_content


@dataclass(frozen=True, slots=True)
class EntriesOfSource:
    """Writes the entries of one source. Entries have ids made of the item's key, so that none is there twice."""

    database: Database
    writer: EntryWriter
    source: KnowledgeSource
    max_entries: int
    """Limit of the organization; 0: no limit."""

    def entry_id_of(self, key: str) -> str:
        return hashlib.sha256(f"{self.source.source_id}\0{key}".encode()).hexdigest()[:24]

    async def check(self, parts: Sequence[SourceItem]) -> None:
        """Check all parts of an item before one is stored.

        Raises:
            ItemRefused: a text has a credential.
        """
        for text in (text for part in parts for text in (part.title, part.text)):
            if found := check_content(text):
                raise ContentRefused(str(found.pattern))

    async def write(self, item: SourceItem) -> str:
        """Create the entry of an item that was checked, or change it if it differs; return its id.

        Raises:
            ItemRefused: the text is too large, or the organization has too many entries.
        """
        key = EntryKey(self.source.organization_id, self.entry_id_of(item.key))

        async def store(session: MongoSession) -> None:
            entry = await knowledge_entries.find(self.database, key, session=session)
            if entry is None:
                await self.writer.create(session, self._new_entry(key, item))
                return
            _require_room_for_embedding_text(entry, item)
            fields = {
                "title": item.title,
                "content": item.text,
                "source_url": item.url,
                "source_id": self.source.source_id,
                "source_key": item.key,
                "source_kind": self.source.kind.value,
            }
            await self.writer.change(session, entry, fields=fields, by=self._by)

        await self._require_room(key)
        try:
            await in_transaction(self.database, store)
        except RequestError as refused:
            raise ItemRefused(refused.detail) from None
        return key.entry_id

    async def exists(self, entry_id: str) -> bool:
        key = EntryKey(self.source.organization_id, entry_id)
        return await knowledge_entries.find(self.database, key) is not None

    async def delete(self, entry_id: str) -> None:
        """Delete an entry, which may be deleted already."""
        key = EntryKey(self.source.organization_id, entry_id)

        async def remove(session: MongoSession) -> None:
            await self.writer.delete(session, key)

        try:
            await in_transaction(self.database, remove)
        except NotFound:
            return

    async def _require_room(self, key: EntryKey) -> None:
        if not self.max_entries or await knowledge_entries.find(self.database, key) is not None:
            return
        if await knowledge_entries.count(self.database, key.organization_id) >= self.max_entries:
            raise ItemRefused(f"the organization has its limit of {self.max_entries} entries; delete some")

    def _new_entry(self, key: EntryKey, item: SourceItem) -> KnowledgeEntry:
        moment = now()
        return KnowledgeEntry(
            organization_id=key.organization_id,
            entry_id=key.entry_id,
            title=item.title,
            content=item.text,
            tags=(),
            type="reference",
            revision=0,
            content_hash=hash_content(item.text),
            created_at=moment,
            updated_at=moment,
            created_by=self._by,
            updated_by=self._by,
            source_id=self.source.source_id,
            source_kind=self.source.kind.value,
            source_url=item.url,
            source_key=item.key,
        )

    @property
    def _by(self) -> str:
        return self.source.updated_by


def _require_room_for_embedding_text(entry: KnowledgeEntry, item: SourceItem) -> None:
    # Somebody has given the entry an embedding text.
    if fault := fault_of_length(item.text, embedding_text=entry.embedding_text):
        raise ItemRefused(f"content {fault}")
