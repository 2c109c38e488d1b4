"""Writes pieces as entries. A piece that is stored already is left alone."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kb_contracts.knowledge.entry_fields import first_line
from kb_contracts.knowledge.pieces import KnowledgePiece
from kb_knowledge.write_entries import EntryWriter
from kb_shared.concurrency.concurrent_tasks import run_all
from kb_shared.http.authentication import Caller
from kb_shared.mongo import knowledge_entries
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.knowledge_entries import EntryKey, KnowledgeEntry, hash_content
from kb_shared.mongo.put_outcome import PutOutcome
from kb_shared.mongo.stored_time import now

_PIECES_IN_TRANSACTION: Final = 25
_TRANSACTIONS_AT_ONCE: Final = 4


class PieceWriter:
    """Writes the pieces of a caller."""

    def __init__(self, database: Database, writer: EntryWriter, caller: Caller) -> None:
        self._database = database
        self._writer = writer
        self._caller = caller

    async def compare(self, pieces: Sequence[KnowledgePiece]) -> PutOutcome:
        """Return what `put` would do now."""
        stored = await knowledge_entries.find_by_ids(
            self._database, self._caller.organization_id, entry_ids=[piece.piece_id for piece in pieces]
        )
        wanted = {piece.piece_id: _fields(piece) for piece in pieces}
        return PutOutcome.compare(
            wanted,
            {each: {name: getattr(entry, name) for name in wanted[each]} for each, entry in stored.items()},
        )

    async def put(self, pieces: Sequence[KnowledgePiece]) -> PutOutcome:
        """Create entries, or give them the fields of the pieces, with their events."""
        outcome = await self.compare(pieces)
        left = [piece for piece in pieces if piece.piece_id in outcome.written]
        batches = [
            left[start : start + _PIECES_IN_TRANSACTION] for start in range(0, len(left), _PIECES_IN_TRANSACTION)
        ]
        # The first one may make the knowledge base, for which several at once would wait.
        for start, end in ((0, 1), *((each, each + _TRANSACTIONS_AT_ONCE) for each in range(1, len(batches), 4))):
            await run_all(map(self._put_batch, batches[start:end]))
        return outcome

    async def _put_batch(self, batch: Sequence[KnowledgePiece]) -> None:
        async def store(session: MongoSession) -> None:
            for piece in batch:
                await self._put(session, piece)

        await in_transaction(self._database, store)

    async def _put(self, session: MongoSession, piece: KnowledgePiece) -> None:
        key = EntryKey(self._caller.organization_id, piece.piece_id)
        entry = await knowledge_entries.find(self._database, key, session=session)
        if entry is None:
            await self._writer.create(session, self._new_entry(piece))
        else:
            await self._writer.change(session, entry, fields=_fields(piece), by=self._caller.key_id)

    def _new_entry(self, piece: KnowledgePiece) -> KnowledgeEntry:
        at = now()
        return KnowledgeEntry(
            organization_id=self._caller.organization_id,
            entry_id=piece.piece_id,
            # Given when the row is stored.
            revision=0,
            content_hash=hash_content(piece.content, embedding_text=piece.embedding_text),
            created_at=at,
            updated_at=at,
            created_by=self._caller.key_id,
            updated_by=self._caller.key_id,
            **_fields(piece),
        )


def _fields(piece: KnowledgePiece) -> Mapping[str, Any]:
    """Return the fields of the entry that a piece decides."""
    return {
        "title": piece.title or first_line(piece.content),
        "content": piece.content,
        "tags": tuple(dict.fromkeys(piece.tags)),
        "type": piece.type,
        "knowledge_type": piece.knowledge_type,
        "info_type": piece.info_type,
        "entity_id": piece.entity_id,
        "embedding_text": piece.embedding_text,
    }
