"""Writes the rows of a backup into an empty database, and creates indexes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from bson.raw_bson import RawBSONDocument
from pymongo import IndexModel
from pymongo.errors import BulkWriteError, CollectionInvalid

from kb_reconciler.backup.dump_layout import iterate_rows, read_metadata
from kb_reconciler.backup.marker import RestoreMarker
from kb_reconciler.backup.progress import ProgressDisplay
from kb_reconciler.backup.scope import (
    EVERYTHING,
    OF_KNOWLEDGE_BASES,
    Matching,
    Referenced,
    RowCondition,
    Selection,
    select_knowledge_bases,
    select_shared,
)
from kb_reconciler.backup.verification import VerifiedBackup
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.errors import SearchUnavailable
from kb_shared.failpoints import reach
from kb_shared.mongo import chunk_collections, knowledge_bases
from kb_shared.mongo.database import Database, Row, collisions, long_commands
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status

_ROWS_PER_INSERT: Final = 1_000
_BYTES_PER_INSERT: Final = 8_000_000
_NOT_OPTIONS: Final = ("key", "v", "ns")
_EXPIRES: Final = "expireAfterSeconds"


@dataclass(frozen=True, slots=True)
class BackupLoader:
    """Load of one backup into one database."""

    database: Database
    backup: VerifiedBackup
    marker: RestoreMarker
    progress: ProgressDisplay

    async def load(self) -> None:
        """Write all rows, then create the indexes by which rows expire."""
        only: KnowledgeBase | None = None
        for name in self.backup.collections:
            if name not in self.marker.finished:
                await self._load_collection(name, only)
            if name == knowledge_bases.NAME and self.backup.scope.kb_id is not None:
                only = await self._find_only_kb()
        await run_all_or_cancel(self._create_indexes(name, expiring=True) for name in self.backup.collections)

    async def _find_only_kb(self) -> KnowledgeBase | None:
        row = await self.database[knowledge_bases.NAME].find_one({"_id": self.backup.scope.kb_id})
        return None if row is None else knowledge_bases.ROWS.read(row)

    async def _load_collection(self, name: str, only: KnowledgeBase | None) -> None:
        selection = self._select(name, only)
        if selection is None:
            return
        entry = self.backup.manifest.files[name]
        self.progress.begin(name, rows=entry.rows)
        await self._create_collection(name)
        # An index of an empty collection takes no time; one of many rows takes less than an insert into it for each.
        before_rows = entry.rows <= _ROWS_PER_INSERT
        if before_rows:
            await self._create_indexes(name, expiring=False)
        for batch in _batches(iterate_rows(self.backup.folder, entry)):
            await self._insert(name, await self._admit(selection, batch))
            self.progress.advance(len(batch))
        if not before_rows:
            await self._create_indexes(name, expiring=False)
        await reach("restore.after_collection")
        await self.marker.note_finished(name)

    def _select(self, name: str, only: KnowledgeBase | None) -> Selection | None:
        scope = self.backup.scope
        if self.backup.is_restored_whole or name not in self._of_all_kbs:
            return EVERYTHING
        if name == knowledge_bases.NAME:
            return select_knowledge_bases(scope)
        if name not in OF_KNOWLEDGE_BASES:
            return select_shared(name, scope, only)
        wanted = (("organization_id", scope.organization_id), ("kb_id", scope.kb_id))
        return Matching(tuple(RowCondition(field, (value,)) for field, value in wanted if value is not None))

    @property
    def _of_all_kbs(self) -> set[str]:
        """Return the collections whose files may have rows of other KBs."""
        return set(self.backup.collections) - {kb.vector_collection for kb in self.backup.knowledge_bases}

    async def _create_collection(self, name: str) -> None:
        options = self._metadata(name).get("options", {})
        try:
            await self.database.create_collection(name, **options)
        except CollectionInvalid:
            if not self.marker.continues:
                raise

    def _metadata(self, name: str) -> Mapping[str, Any]:
        return read_metadata(self.backup.folder, self.backup.manifest.metadata[name])

    async def _admit(self, selection: Selection, rows: Sequence[RawBSONDocument]) -> Sequence[RawBSONDocument]:
        if isinstance(selection, Matching):
            return [row for row in rows if selection.admits(row)]
        mine = [row for row in rows if selection.within.admits(row) and row.get(selection.field) is not None]
        key = selection.parent_key
        wanted = [_key_of(row, selection) for row in mine]
        parents = self.database[selection.parent].find({key.field: {"$in": wanted}}, {key.field: 1})
        found = {row[key.field] async for row in parents}
        return [row for row, value in zip(mine, wanted, strict=True) if value in found]

    async def _insert(self, name: str, rows: Sequence[RawBSONDocument]) -> None:
        if not rows:
            return
        try:
            await self.database[name].insert_many(cast("Sequence[Row]", rows), ordered=False)
        except BulkWriteError as error:
            # Rows that an interrupted restore has written.
            if not all(failure.get("keyPattern") == {"_id": 1} for failure in collisions(error)):
                raise

    async def _create_indexes(self, name: str, *, expiring: bool) -> None:
        """Create the indexes of the backup; those by which rows expire in a call of their own."""
        indexes = [
            IndexModel(list(index["key"].items()), **{k: v for k, v in index.items() if k not in _NOT_OPTIONS})
            for index in self._metadata(name)["indexes"]
            if index["name"] != "_id_" and (_EXPIRES in index) == expiring
        ]
        if indexes:
            with long_commands():
                await self.database[name].create_indexes(indexes)

    async def create_search_indexes(self) -> bool:
        """Create the search indexes of all KBs; return False if the deployment has no Atlas search."""
        for kb in await knowledge_bases.find_existing(self.database):
            if kb.status is Status.CREATING:
                continue  # kb-api creates them
            try:
                await chunk_collections.create(self.database, kb)
            except SearchUnavailable:
                return False
        return True


def _key_of(row: RawBSONDocument, selection: Referenced) -> Any:
    prefix = selection.parent_key.prefix
    return f"{prefix}{row[selection.field]}" if prefix else row[selection.field]


def _batches(rows: Iterator[bytes]) -> Iterator[list[RawBSONDocument]]:
    batch: list[RawBSONDocument] = []
    size = 0
    for row in rows:
        batch.append(RawBSONDocument(row))
        size += len(row)
        if len(batch) == _ROWS_PER_INSERT or size >= _BYTES_PER_INSERT:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
