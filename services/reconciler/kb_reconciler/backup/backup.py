"""Writes a deployment, an organization or a KB into a folder, in the layout of mongodump."""

import asyncio
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pymongo.errors import OperationFailure

from kb_reconciler.backup import manifest as manifests
from kb_reconciler.backup.deployments import CollectionInfo, find_collection, list_collections
from kb_reconciler.backup.dump_layout import (
    DumpFile,
    FileEntry,
    build_metadata,
    join_files,
    metadata_path,
    rows_path,
    write_file,
)
from kb_reconciler.backup.errors import BackupRefused
from kb_reconciler.backup.folder import begin, locked
from kb_reconciler.backup.manifest import BackedUpKnowledgeBase, BackupHeader, BackupJournal, BackupPart, Manifest
from kb_reconciler.backup.progress import ProgressDisplay
from kb_reconciler.backup.rows import RowReader, write_in_order
from kb_reconciler.backup.scope import (
    FIRST,
    LAST,
    LEFT_OUT,
    MARKER,
    OF_KNOWLEDGE_BASES,
    SHARED,
    BackupScope,
    Matching,
    Selection,
    select_knowledge_bases,
    select_of_knowledge_base,
    select_shared,
)
from kb_reconciler.backup.snapshots import (
    ClusterTime,
    HistoryGone,
    SnapshotClock,
    collection_at,
    find_history_s,
    read_cluster_time,
)
from kb_shared.errors import SearchUnavailable
from kb_shared.failpoints import reach
from kb_shared.mongo import knowledge_bases, schema_version
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status, build_collection_name
from kb_shared.mongo.search_indexes import list_indexes

PARTS: Final = "parts"
"""Folder with the rows of single KBs until all KBs are read."""
_WITHOUT_CHUNKS: Final = (Status.CREATING, Status.DELETING)


async def back_up(database: Database, folder: Path, scope: BackupScope, *, progress: ProgressDisplay) -> Manifest:
    """Write a backup into `folder`, or continue one that was interrupted there.

    Raises:
        BackupRefused: the folder has something else, or nothing of the scope exists.
    """
    if await find_collection(database, MARKER) is not None:
        raise BackupRefused(
            f"the restore into database {database.name!r} is not finished: run `kb restore` again first"
        )
    header = await _read_header(database, scope)
    header.check_version()
    with locked(folder):
        journal = BackupJournal(folder)
        kept = begin(folder, journal, header, progress=progress)
        times = [time for part in kept.values() for time in part.cluster_times]
        clock = SnapshotClock(
            database,
            max(times, key=lambda time: time.timestamp) if times else await read_cluster_time(database),
            await find_history_s(database),
        )
        run = _BackupRun(database, folder, header, clock=clock, journal=journal, progress=progress, parts=kept)
        return await run.run()


async def _read_header(database: Database, scope: BackupScope) -> BackupHeader:
    info = await find_collection(database, knowledge_bases.NAME)
    assert info is not None
    stored = await schema_version.find(database)
    return BackupHeader(
        database=database.name,
        deployment=bytes(info["info"]["uuid"]).hex(),
        organization_id=scope.organization_id,
        kb_id=scope.kb_id,
        started_at=datetime.now(UTC),
        oldest_reader=schema_version.OLDEST_READER if stored is None else stored.oldest_reader,
    )


@dataclass(frozen=True, slots=True)
class _BackupRun:
    database: Database
    folder: Path
    header: BackupHeader
    clock: SnapshotClock
    journal: BackupJournal
    progress: ProgressDisplay
    parts: dict[str, BackupPart] = field(default_factory=dict)

    @property
    def scope(self) -> BackupScope:
        return self.header.scope

    async def run(self) -> Manifest:
        """Read all parts that are not finished yet, then write the manifest."""
        kbs = await self._read_knowledge_bases()
        only = kbs[0] if self.scope.kb_id is not None else None
        collections = await list_collections(self.database)
        unknown = [name for name in collections if self._is_unknown(collections[name])] if self.scope.is_whole else []
        for name in FIRST:
            await self._back_up_shared(name, only)
        for kb in kbs:
            await self._back_up_knowledge_base(kb)
        for name in (*LAST, *unknown):
            await self._back_up_shared(name, only)
        return await self._finish(collections)

    async def _read_knowledge_bases(self) -> list[KnowledgeBase]:
        query = select_knowledge_bases(self.scope).query()

        async def read(time: ClusterTime) -> list[KnowledgeBase]:
            rows = collection_at(self.database, knowledge_bases.NAME, time=time).find(query).sort("_id")
            return [knowledge_bases.ROWS.read(row) async for row in rows]

        kbs, _ = await self.clock.read(knowledge_bases.NAME, read)
        if not kbs and not self.scope.is_whole:
            raise BackupRefused(f"database {self.database.name!r} has no knowledge base of {self.scope}")
        return kbs

    @staticmethod
    def _is_unknown(info: CollectionInfo) -> bool:
        name = str(info["name"])
        known = name in SHARED or name in OF_KNOWLEDGE_BASES or name in LEFT_OUT
        return not known and info["type"] == "collection" and not name.startswith(build_collection_name(""))

    async def _back_up_shared(self, name: str, only: KnowledgeBase | None) -> None:
        selection = select_shared(name, self.scope, only)
        if name in self.parts or selection is None:
            return
        info = await find_collection(self.database, name)
        if info is None:
            return
        self.progress.begin(name, rows=await self.database[name].estimated_document_count())
        path = rows_path(self.database.name, name)
        if isinstance(selection, Matching) and name in SHARED:
            file, times = await self._write_in_order(name, selection, path)
        else:
            file, time = await self.clock.read(name, lambda time: self._write(name, selection, (path, time, only)))
            times = (time,)
        await self._finish_part(
            BackupPart(name=name, cluster_times=times, files={name: file}, metadata={name: await self._metadata(info)})
        )

    async def _write_in_order(
        self, name: str, selection: Matching, path: str
    ) -> tuple[FileEntry, tuple[ClusterTime, ...]]:
        with self._new_file(path) as file:
            times = await write_in_order(
                self.database,
                name,
                selection.query(),
                file=file,
                time=self.clock.time,
                on_rows=self.progress.advance,
            )
            entry = await asyncio.to_thread(file.finish)
        self.clock.time = times[-1]
        return entry, times

    async def _write(
        self, name: str, selection: Selection, to: tuple[str, ClusterTime, KnowledgeBase | None]
    ) -> FileEntry:
        path, time, only = to
        reader = RowReader(self.database, self.scope, time, only, self.progress.advance)
        with self._new_file(path) as file:
            await reader.write(name, selection, file)
            return await asyncio.to_thread(file.finish)

    @contextmanager
    def _new_file(self, path: str) -> Iterator[DumpFile]:
        file = DumpFile(self.folder, path)
        try:
            yield file
        except BaseException:
            file.abandon()
            raise

    async def _back_up_knowledge_base(self, kb: KnowledgeBase) -> None:
        name = f"kb/{kb.kb_id}"
        if name in self.parts:
            return
        chunks = self.database[kb.vector_collection]
        self.progress.begin(name, rows=await chunks.estimated_document_count())
        info = await find_collection(self.database, kb.vector_collection)
        first = self.clock.time
        files, time = await self.clock.read(
            name, lambda time: self._write_knowledge_base(kb, info, (time, time == first))
        )
        metadata = {} if info is None else {kb.vector_collection: await self._metadata(info)}
        await self._finish_part(
            BackupPart(
                name=name,
                cluster_times=(time,),
                files=files,
                metadata=metadata if kb.vector_collection in files else {},
                knowledge_base=await self._describe(kb) if files else None,
            )
        )

    async def _write_knowledge_base(
        self, kb: KnowledgeBase, info: CollectionInfo | None, at: tuple[ClusterTime, bool]
    ) -> dict[str, FileEntry]:
        """Write the rows of a KB at one time; return no file if it did not exist then."""
        time, is_first = at
        row = await collection_at(self.database, knowledge_bases.NAME, time=time).find_one({"_id": kb.kb_id})
        if row is None:
            return {}
        files = {}
        for collection in OF_KNOWLEDGE_BASES:
            path = f"{PARTS}/{kb.kb_id}/{collection}.bson.gz"
            selection = select_of_knowledge_base(collection, kb)
            files[collection] = await self._write(collection, selection, (path, time, None))
        chunks = select_of_knowledge_base(kb.vector_collection, kb)
        path = rows_path(self.database.name, kb.vector_collection)
        entry = await self._write(kb.vector_collection, chunks, (path, time, None))
        await reach("backup.after_chunks")
        # A collection that was dropped meanwhile reads as an empty one, without an error.
        now = await find_collection(self.database, kb.vector_collection)
        is_same = now is not None and info is not None and now["info"]["uuid"] == info["info"]["uuid"]
        if not is_same and is_first and knowledge_bases.ROWS.read(row).status not in _WITHOUT_CHUNKS:
            raise HistoryGone
        return files if now is None else files | {kb.vector_collection: entry}

    async def _describe(self, kb: KnowledgeBase) -> BackedUpKnowledgeBase:
        try:
            indexes = await list_indexes(self.database[kb.vector_collection])
        except (SearchUnavailable, OperationFailure):
            indexes = []  # the role `read` may not list them; a restore does not need them
        return BackedUpKnowledgeBase(
            kb_id=kb.kb_id,
            organization_id=kb.organization_id,
            vector_collection=kb.vector_collection,
            search_indexes=[{"name": index.name, "definition": index.definition} for index in indexes],
        )

    async def _metadata(self, info: CollectionInfo) -> FileEntry:
        name = str(info["name"])
        indexes = [dict(index) async for index in await self.database[name].list_indexes()]
        return write_file(self.folder, metadata_path(self.database.name, name), content=build_metadata(info, indexes))

    async def _finish_part(self, part: BackupPart) -> None:
        self.journal.add(part)
        self.parts[part.name] = part
        await reach("backup.after_part")

    async def _finish(self, collections: Mapping[str, CollectionInfo]) -> Manifest:
        """Put the rows of all KBs together, write the manifest, and delete what only an unfinished backup needs."""
        files = {name: file for part in self.parts.values() for name, file in part.files.items()}
        metadata = {name: file for part in self.parts.values() for name, file in part.metadata.items()}
        for name in OF_KNOWLEDGE_BASES:
            files[name] = await asyncio.to_thread(self._join, name)
            if (info := collections.get(name)) is not None:
                metadata[name] = await self._metadata(info)
        manifest = Manifest(
            format=manifests.FORMAT,
            header=self.header,
            finished_at=datetime.now(UTC),
            server_version=str((await self.database.client.server_info())["version"]),
            files={name: file for name, file in sorted(files.items()) if name in metadata},
            metadata=dict(sorted(metadata.items())),
            cluster_times={part.name: part.cluster_times for part in self.parts.values() if part.files},
            knowledge_bases=[part.knowledge_base for part in self.parts.values() if part.knowledge_base is not None],
            left_out=self._left_out(collections, files.keys()),
            provider_key_ids=await self._provider_key_ids(),
        )
        await reach("backup.before_manifest")
        manifests.write_manifest(self.folder, manifest)
        shutil.rmtree(self.folder / PARTS, ignore_errors=True)
        self.journal.delete()
        return manifest

    def _join(self, collection: str) -> FileEntry:
        of_kbs = [part.files for part in self.parts.values() if part.knowledge_base is not None]
        parts = [files[collection] for files in of_kbs if collection in files]
        return join_files(self.folder, rows_path(self.database.name, collection), parts=parts)

    def _left_out(self, collections: Mapping[str, CollectionInfo], written: Any) -> dict[str, str]:
        """Name the collections without a file. A backup of a part does not name the KBs of others."""
        reasons = {}
        for name, info in collections.items():
            if name in written:
                continue
            if name in LEFT_OUT:
                reasons[name] = LEFT_OUT[name]
            elif info["type"] != "collection":
                reasons[name] = f"it is a {info['type']}"
            elif name.startswith(build_collection_name("")):
                if self.scope.is_whole:
                    reasons[name] = "its knowledge base does not exist, or not yet at the time of the backup"
            else:
                reasons[name] = f"its rows can't be told apart by {self.scope}, or are not needed for it"
        return reasons

    async def _provider_key_ids(self) -> Sequence[str]:
        selection = select_shared("llm_providers", self.scope) if self.scope.kb_id is None else None
        if not isinstance(selection, Matching):
            return []
        return sorted(await self.database["llm_providers"].distinct("key_id", selection.query()))
