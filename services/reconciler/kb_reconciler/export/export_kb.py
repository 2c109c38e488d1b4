"""Exports a KB: documents, tags and vectors of one snapshot, then the texts, which never change."""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final, Literal, TypeAlias

from bson.binary import BinaryVectorDtype

from kb_reconciler.export import kbx
from kb_reconciler.export.kbx import ExportedFrom, FileContents, FileCounts, KbxManifest, UnreadableFile
from kb_reconciler.export.kbx_writer import KbxWriter
from kb_shared.identifiers import new_id
from kb_shared.mongo import document_index, document_texts, documents, knowledge_bases, tags, vectors
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.documents import Document
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.majority import current_snapshot

NoteProgress: TypeAlias = Callable[[str, int], None]
"""Function that is called with what is in work, and how many of them are done."""

VECTOR_HEAD: Final = bytes([BinaryVectorDtype.FLOAT32.value[0], 0])
"""First bytes of a stored vector; float32 numbers, little-endian, follow."""
_PLAIN: Final = (
    "name",
    "description",
    "chunker_type",
    "chunk_size",
    "chunk_overlap",
    "embedding_model",
    "embedding_dimensions",
    "max_chunks_per_document",
    "coalesce_neighbors",
    "min_score",
    "text_analyzer",
    "text_normalization",
)
"""Fields of the configuration that are written as they are."""
_BATCH: Final = 200
_TEXTS_AT_ONCE: Final = 20


async def export_knowledge_base(
    database: Database, key: KnowledgeBaseKey, path: Path, *, contents: FileContents, note: NoteProgress
) -> KbxManifest:
    """Write the KB to the new file `path` and return the manifest.

    Raises:
        NotFound: there is no such KB.
        UnreadableFile: the file can't be written, or a text is missing.
        PrimaryChanged: run it again.
    """
    with KbxWriter(path) as writer, ExitStack() as spools:
        texts = spools.enter_context(TemporaryFile())
        export = _Export(database, key, writer, note=note)
        async with current_snapshot(database) as snapshot:
            await export.read_snapshot(snapshot, contents, texts=texts)
        if contents != "config-only":
            await export.write_texts(texts)
        manifest = export.manifest(contents)
        writer.finish(manifest)
        return manifest


class _Export:
    def __init__(self, database: Database, key: KnowledgeBaseKey, writer: KbxWriter, *, note: NoteProgress) -> None:
        self._database = database
        self._key = key
        self._writer = writer
        self._note = note
        self._counts: dict[str, int] = dict.fromkeys(FileCounts.model_fields, 0)
        self._kb: KnowledgeBase
        self._schema_version: Literal[2, 3] = 2

    async def read_snapshot(self, snapshot: MongoSession, contents: FileContents, *, texts: IO[bytes]) -> None:
        """Write all members but the texts, whose ids go to `texts`."""
        self._kb = await knowledge_bases.get(self._database, self._key, session=snapshot)
        if self._kb.refuse_sensitive:
            self._schema_version = 3
        with self._writer.member(kbx.CONFIGURATION) as member:
            member.write(json.dumps(_configuration(self._kb), ensure_ascii=False, indent=2).encode())
        tag_ids = set(self._kb.tag_ids)
        if contents != "config-only":
            tag_ids |= await self._write_documents(snapshot, texts)
        await self._write_tags(snapshot, tag_ids)
        if contents != "config-only":
            await self._write_vectors(snapshot, with_vectors=contents == "full")

    async def write_texts(self, spooled: IO[bytes]) -> None:
        spooled.seek(0)
        done = 0
        with self._writer.member(kbx.TEXTS) as member:
            for batch in _batches(map(json.loads, spooled), _TEXTS_AT_ONCE):
                wanted = [text_id for _, text_id in batch]
                found = await document_texts.find_all(self._database, self._key.organization_id, wanted)
                for document_id, text_id in batch:
                    if (stored := found.get(text_id)) is None:
                        raise UnreadableFile(
                            f"the text of document {document_id!r} is not stored any more: if the document has just "
                            "changed, export again; otherwise have its event published again first"
                        )
                    pages = [{"page": page, "start": start, "end": end} for page, start, end in stored.pages]
                    line = {"document_id": document_id, "text": stored.text, "pages": pages}
                    if stored.embedding_text is not None:
                        line["embedding_text"] = stored.embedding_text
                        self._schema_version = 3
                    member.write_line(line)
                done += len(batch)
                self._note("texts", done)

    def manifest(self, contents: FileContents) -> KbxManifest:
        return KbxManifest(
            format="kbx",
            schema_version=self._schema_version,
            written_by=kbx.WRITTEN_BY,
            export_id=new_id(),
            exported_at=kbx.now(),
            contents=contents,
            source=ExportedFrom(organization_id=self._key.organization_id, kb_id=self._key.kb_id),
            embedding_model=self._kb.embedding_model,
            embedding_dimensions=self._kb.embedding_dimensions,
            text_normalization=self._kb.text_normalization,
            counts=FileCounts(**self._counts),
            members=self._writer.members,
        )

    async def _write_documents(self, snapshot: MongoSession, spooled: IO[bytes]) -> set[str]:
        """Write the documents that are indexed and still belong to the KB; return their tags."""
        tag_ids: set[str] = set()
        rows = self._indexed(snapshot, {}, fields=("document_id", "content_digest"))
        with self._writer.member(kbx.DOCUMENTS) as member:
            async for batch in _batches_of(rows, _BATCH):
                ids = [row["document_id"] for row in batch]
                found = await documents.find_by_ids(self._database, self._key.organization_id, ids, session=snapshot)
                for row in batch:
                    document = found.get(row["document_id"])
                    if document is None or document.text is None or not {*document.tag_ids} & {*self._kb.tag_ids}:
                        self._counts["documents_left_out"] += 1
                        continue
                    member.write_line(_document_line(document))
                    if document.warnings:
                        self._schema_version = 3
                    spooled.write(json.dumps([document.document_id, document.text.text_id]).encode() + b"\n")
                    tag_ids.update(document.tag_ids)
                    self._counts["documents"] += 1
                    self._counts["documents_changed"] += row.get("content_digest") != document.text.text_id
                self._note("documents", self._counts["documents"])
        return tag_ids

    async def _write_tags(self, snapshot: MongoSession, tag_ids: set[str]) -> None:
        names: dict[str, str | None] = {}
        for batch in _batches(iter(sorted(tag_ids)), _BATCH):
            organization_id = self._key.organization_id
            found = await tags.find_by_ids(self._database, organization_id, tag_ids=batch, session=snapshot)
            names |= {tag.tag_id: tag.name for tag in found}
        with self._writer.member(kbx.TAGS) as member:
            for tag_id in sorted(tag_ids):
                member.write_line({"tag_id": tag_id, "name": names.get(tag_id)})
        self._counts["tags"] = len(tag_ids)

    async def _write_vectors(self, snapshot: MongoSession, *, with_vectors: bool) -> None:
        """Count the chunks, and write each distinct vector once, in the order of the hashes of their texts."""
        chunks = vectors.chunks_of(self._database, self._kb)
        stages: list[Row] = [
            {"$match": {**chunks.scope, "until": None}},
            {"$group": {"_id": "$chunk_hash", "chunk_id": {"$min": "$_id"}, "chunks": {"$sum": 1}}},
            {"$sort": {"_id": 1}},
        ]
        found = await chunks.collection.aggregate(stages, session=snapshot, allowDiskUse=True)
        with TemporaryFile() as spooled:
            if with_vectors:
                with self._writer.member(kbx.FLOATS) as floats:
                    async for batch in self._counted(found):
                        for line, row in await self._read_vectors(snapshot, batch):
                            floats.write(row)
                            spooled.write(json.dumps(line).encode() + b"\n")
                            self._counts["vectors"] += 1
                spooled.seek(0)
                with self._writer.member(kbx.VECTORS) as member:
                    for written in spooled:
                        member.write(written)
            else:
                async for _ in self._counted(found):
                    pass

    async def _counted(self, found: AsyncIterator[Row]) -> AsyncIterator[list[Row]]:
        async for batch in _batches_of(found, _BATCH):
            self._counts["distinct_chunks"] += len(batch)
            self._counts["chunks"] += sum(row["chunks"] for row in batch)
            yield batch
            self._note("chunks", self._counts["distinct_chunks"])

    async def _read_vectors(self, snapshot: MongoSession, batch: Sequence[Row]) -> list[tuple[dict[str, str], bytes]]:
        """Return the vectors whose provider is known, in the order of `batch`."""
        chunks = vectors.chunks_of(self._database, self._kb)
        ids = {"_id": {"$in": [row["chunk_id"] for row in batch]}, **chunks.scope}
        stored = chunks.collection.find(ids, {"embedding": 1, "document_id": 1}, session=snapshot)
        rows = {row["_id"]: row async for row in stored}
        fingerprints = await self._fingerprints(snapshot, {row["document_id"] for row in rows.values()})
        size = self._kb.embedding_dimensions * kbx.BYTES_PER_NUMBER
        found = []
        for each in batch:
            row = rows.get(each["chunk_id"])
            fingerprint = fingerprints.get(row["document_id"]) if row else None
            embedding = bytes(row["embedding"]) if row else b""
            if fingerprint and embedding.startswith(VECTOR_HEAD) and len(embedding) == size + len(VECTOR_HEAD):
                line = {"chunk_hash": each["_id"], "provider_fingerprint": fingerprint}
                found.append((line, embedding[len(VECTOR_HEAD) :]))
        return found

    async def _fingerprints(self, snapshot: MongoSession, document_ids: set[str]) -> dict[str, str]:
        """Return the provider that computed the vectors, by document; absent where it was not noted."""
        rows = self._indexed(
            snapshot, {"document_id": {"$in": list(document_ids)}}, fields=("document_id", "vector_space")
        )
        found = {}
        async for row in rows:
            space: Mapping[str, Any] = row.get("vector_space") or {}
            same = space.get("model") == self._kb.embedding_model
            if same and space.get("dimensions") == self._kb.embedding_dimensions:
                found[row["document_id"]] = str(space["provider_fingerprint"])
        return found

    def _indexed(self, snapshot: MongoSession, query: Row, *, fields: Sequence[str]) -> AsyncIterator[Row]:
        of_kb = {"organization_id": self._key.organization_id, "kb_id": self._key.kb_id, **query}
        rows = self._database[document_index.NAME].find(of_kb, dict.fromkeys(fields, 1), session=snapshot)
        return aiter(rows.sort("document_id", 1))


def _configuration(kb: KnowledgeBase) -> dict[str, Any]:
    lists = {"tag_ids": list(kb.tag_ids), "filterable_metadata": list(kb.filterable_metadata)}
    # Absent unless it is set, so that programs of version 2 read the other files.
    check = {"refuse_sensitive": True} if kb.refuse_sensitive else {}
    return {name: getattr(kb, name) for name in _PLAIN} | lists | check | {"rate_limits": dict(kb.rate_limits)}


def _document_line(document: Document) -> dict[str, Any]:
    text, metadata = document.text, document.metadata
    assert text is not None, "documents without text are left out"
    assert document.tags is not None, "documents without tags are left out"
    # Absent unless something was left out, so that programs of version 2 read the other files.
    warnings: dict[str, Any] = {}
    if text.reading_warnings:
        warnings["reading_warnings"] = text.reading_warnings
    if metadata is not None and metadata.warnings:
        warnings["metadata_warnings"] = [each.model_dump() for each in metadata.warnings]
    return {
        "document_id": document.document_id,
        "document_name": text.name,
        "upload_date": text.upload_date.isoformat(),
        "content_type": text.content_type,
        "source_digest": text.source_digest,
        "tag_ids": list(document.tag_ids),
        "metadata": None if metadata is None else kbx.write_metadata(metadata.values),
        "text_revision": text.revision,
        "tags_revision": document.tags.revision,
        "metadata_revision": None if metadata is None else metadata.revision,
        **warnings,
    }


def _batches(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    batch = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


async def _batches_of(rows: AsyncIterator[Row], size: int) -> AsyncIterator[list[Row]]:
    batch = []
    async for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
