"""Imports a KB: checks the whole file before the first write, then writes tags, vectors, documents, and the KB last.

What an interrupted import leaves is documents and cached vectors. The same import again finds them and continues.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from bson.binary import Binary

from kb_reconciler.export import kbx
from kb_reconciler.export.export_kb import VECTOR_HEAD, NoteProgress
from kb_reconciler.export.import_plan import (
    USUAL_BATCHES,
    BatchSizes,
    ImportLimits,
    ImportPlan,
    ImportRefused,
    ImportRequest,
)
from kb_reconciler.export.imported_documents import DocumentConflict, ImportedDocument
from kb_reconciler.export.kbx import FileConfiguration, UnreadableFile, VectorLine
from kb_reconciler.export.kbx_reader import KbxReader
from kb_reconciler.export.model_names import is_unknown_model
from kb_shared.errors import TransientError
from kb_shared.identifiers import new_kb_id
from kb_shared.messaging.new_knowledge_bases import store_new_knowledge_base
from kb_shared.mongo import (
    api_keys,
    document_texts,
    documents,
    embedding_cache,
    knowledge_bases,
    llm_providers,
    organizations,
    tags,
)
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.documents import AppliedEvent, Document, DocumentChange
from kb_shared.mongo.embedding_cache import VectorSpace
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.stored_time import now
from kb_shared.mongo.tags import Tag
from kb_shared.observability import spans, tracing
from kb_shared.providers.known_providers import OWN_SERVERS

SOURCE: Final = "/kb/import"
IMPORT_EVENT: Final = "import"
"""Type of the last event of an imported document, where others have that of a message."""
MAX_TAGS: Final = 100_000
_SHOWN_CONFLICTS: Final = 5


class KnowledgeBaseImport:
    """One import. `check` writes nothing; `run` may be repeated after a failure."""

    def __init__(
        self,
        database: Database,
        reader: KbxReader,
        request: ImportRequest,
        *,
        limits: ImportLimits,
        note: NoteProgress,
        batches: BatchSizes = USUAL_BATCHES,
    ) -> None:
        self._database = database
        self._reader = reader
        self._request = request
        self._limits = limits
        self._note = note
        self._batches = batches
        self._uses_vectors = request.use_vectors and reader.has_vectors

    async def check(self) -> ImportPlan:
        """Read the whole file and compare it with the organization.

        Raises:
            UnreadableFile: a member can't be read.
            ImportRefused: the organization can't take the KB.
        """
        await self._require_organization()
        configuration = self._reader.configuration()
        await self._check_limits(configuration)
        tag_names = self._read_tags(configuration)
        tag_ids = tuple(self._request.mapping.map_tags(configuration.tag_ids))
        before = None if self._request.again else await self._find_imported()
        if before is None:
            await self._require_quota()
        outcomes = Counter[bool]()
        if self._reader.has_documents:
            outcomes = await self._check_documents(tag_ids)
        vectors = sum(1 for _ in self._noted_vectors("checking vectors")) if self._reader.has_vectors else 0
        counts = self._reader.manifest.counts
        used = vectors if self._uses_vectors else 0
        if used > counts.distinct_chunks:
            raise UnreadableFile(f"{kbx.MANIFEST}: counts has more vectors than distinct_chunks")
        return ImportPlan(
            imported_before=before,
            configuration=configuration,
            tag_ids=tag_ids,
            tag_names=tag_names,
            documents_new=outcomes[True],
            documents_reused=outcomes[False],
            documents_changed=counts.documents_changed,
            chunks=counts.chunks,
            vectors=used,
            spus_at_most=counts.distinct_chunks - used,
            embeds_sentences=configuration.chunker_type in kbx.EMBEDS_SENTENCES and outcomes.total() > 0,
        )

    async def run(self, plan: ImportPlan) -> str:
        """Carry out the plan and return the id of the KB.

        Raises:
            ImportRefused: the organization has changed since the check.
            TransientError: run it again.
        """
        if plan.imported_before is not None:
            return plan.imported_before
        with tracing.trace(spans.IMPORT_KB, {"kb.organization_id": self._request.organization_id}):
            return await self._import(plan)

    async def _import(self, plan: ImportPlan) -> str:
        await self._store_tags(plan)
        if self._uses_vectors:
            await self._store_vectors()
        if self._reader.has_documents:
            await self._store_documents(plan.tag_ids)
        # Last: from now on kb-api and the indexer work on it.
        return await self._store_knowledge_base(plan)

    async def _require_organization(self) -> None:
        organization_id = self._request.organization_id
        _, keys = await api_keys.find_page(self._database, organization_id, skip=0, limit=1)
        if not keys:
            raise ImportRefused(
                f"there is no organization {organization_id!r} in this database: it exists once it has an API key"
            )

    async def _check_limits(self, configuration: FileConfiguration) -> None:
        limit = self._limits.max_chunks_per_document
        if configuration.max_chunks_per_document > limit:
            raise ImportRefused(
                f"{kbx.CONFIGURATION}: max_chunks_per_document is {configuration.max_chunks_per_document}, and this "
                f"deployment allows {limit} (KB_MAX_CHUNKS_PER_DOCUMENT)"
            )
        model = configuration.embedding_model
        if is_unknown_model(model, chunker_type=configuration.chunker_type) and not await self._has_server():
            raise UnreadableFile(f"{kbx.CONFIGURATION}: embedding_model: no embedding model is called {model!r}")

    async def _has_server(self) -> bool:
        """Return whether the organization has a server of its own, whose models have any name."""
        named = await llm_providers.find_with_address(self._database, self._request.organization_id)
        return not named.isdisjoint(OWN_SERVERS)

    def _read_tags(self, configuration: FileConfiguration) -> dict[str, str | None]:
        if self._reader.manifest.counts.tags > MAX_TAGS:
            raise UnreadableFile(f"{kbx.TAGS} has more than {MAX_TAGS} lines")
        names = {line.tag_id: line.name for line in self._reader.tags()}
        if missing := [tag_id for tag_id in configuration.tag_ids if tag_id not in names]:
            raise UnreadableFile(f"{kbx.TAGS} lacks the tag {missing[0]!r} of the knowledge base")
        mapping = self._request.mapping
        mapping.require_tags_of(names)
        return {mapping.tags.get(tag_id, tag_id): name for tag_id, name in names.items()}

    async def _find_imported(self, session: MongoSession | None = None) -> str | None:
        organization_id = self._request.organization_id
        kbs = await knowledge_bases.find_of_organization(self._database, organization_id, session=session)
        return next((kb.kb_id for kb in kbs if kb.created_by == self._creator), None)

    @property
    def _creator(self) -> str:
        return f"import:{self._reader.manifest.export_id}"

    async def _require_quota(self, session: MongoSession | None = None) -> None:
        limit = self._limits.max_knowledge_bases
        if await knowledge_bases.count(self._database, self._request.organization_id, session) >= limit:
            raise ImportRefused(
                f"the organization has {limit} knowledge bases, which is the limit (KB_MAX_KNOWLEDGE_BASES): delete one"
            )

    async def _check_documents(self, tag_ids: Collection[str]) -> Counter[bool]:
        """Count the documents by whether they are new to the organization. Raises ImportRefused with the conflicts."""
        outcomes: Counter[bool] = Counter()
        conflicts: list[str] = []
        for batch in self._document_batches():
            before = await self._find_documents(batch)
            for document in batch:
                try:
                    after = document.applied_to(before.get(document.document_id), kb_tags=tag_ids)
                except DocumentConflict as conflict:
                    conflicts.append(str(conflict))
                else:
                    outcomes[after is not None] += 1
            self._note("checking documents", outcomes.total())
            if len(conflicts) > _SHOWN_CONFLICTS:
                break
        if conflicts:
            more = "; and more" if len(conflicts) > _SHOWN_CONFLICTS else ""
            raise ImportRefused(
                f"{'; '.join(conflicts[:_SHOWN_CONFLICTS])}{more}. Give the documents of the file other ids with "
                "--document-prefix"
            )
        return outcomes

    async def _store_tags(self, plan: ImportPlan) -> None:
        """Add the tags that the organization does not have; a tag of the KB that was deleted is restored."""
        organization_id, names = self._request.organization_id, plan.tag_names
        unregistered = await tags.find_unregistered(self._database, organization_id, tag_ids=names)
        unknown = await tags.find_unknown(self._database, organization_id, tag_ids=plan.tag_ids)
        for tag_id in sorted(unregistered | unknown):
            await tags.put(self._database, organization_id, Tag(tag_id, names.get(tag_id)))

    async def _store_vectors(self) -> None:
        manifest = self._reader.manifest
        batch: list[tuple[VectorLine, bytes]] = []
        for vector in self._noted_vectors("vectors"):
            batch.append(vector)
            if len(batch) == self._batches.vectors:
                await self._cache(batch, model=manifest.embedding_model, dimensions=manifest.embedding_dimensions)
                batch = []
        await self._cache(batch, model=manifest.embedding_model, dimensions=manifest.embedding_dimensions)

    async def _cache(self, batch: Sequence[tuple[VectorLine, bytes]], *, model: str, dimensions: int) -> None:
        for fingerprint in {line.provider_fingerprint for line, _ in batch}:
            space = VectorSpace(self._request.organization_id, fingerprint, model, dimensions, "document")
            vectors = (
                (line.chunk_hash, Binary(VECTOR_HEAD + row, 9))
                for line, row in batch
                if line.provider_fingerprint == fingerprint
            )
            await embedding_cache.restore(self._database, space, vectors)

    def _noted_vectors(self, work: str) -> Iterator[tuple[VectorLine, bytes]]:
        for done, vector in enumerate(self._reader.vectors(), start=1):
            yield vector
            if done % self._batches.vectors == 0:
                self._note(work, done)

    async def _store_documents(self, tag_ids: Collection[str]) -> None:
        done = 0
        for batch in self._document_batches():
            before = await self._find_documents(batch)
            try:
                after = [
                    (document, changed)
                    for document in batch
                    if (changed := document.applied_to(before.get(document.document_id), kb_tags=tag_ids)) is not None
                ]
            except DocumentConflict as conflict:
                raise ImportRefused(f"{conflict}, since a moment ago. Import again") from None
            # Before the documents that refer to them.
            await document_texts.put_all(self._database, [document.text for document, _ in after])
            changes = [self._change(changed) for _, changed in after]
            if changes and len(await documents.write_all(self._database, changes)) < len(changes):
                raise TransientError("documents of the organization changed meanwhile; import again")
            done += len(batch)
            self._note("documents", done)

    def _change(self, document: Document) -> DocumentChange:
        assert document.text is not None, "an imported document has a text"
        event = AppliedEvent(
            event_id=f"{self._creator}:{document.document_id}",
            type=IMPORT_EVENT,
            revision=document.text.revision,
            traceparent=tracing.current(),
            applied_at=datetime.now(UTC),
        )
        return DocumentChange(document, event)

    def _document_batches(self) -> Iterator[list[ImportedDocument]]:
        """Yield the documents of the file, in batches of limited size."""
        batch: list[ImportedDocument] = []
        size_bytes = 0
        for line, text in self._reader.documents():
            document = ImportedDocument.from_lines(
                line, text, organization_id=self._request.organization_id, mapping=self._request.mapping
            )
            batch.append(document)
            size_bytes += len(document.text.encoded)
            if len(batch) == self._batches.documents or size_bytes >= self._batches.text_bytes:
                yield batch
                batch, size_bytes = [], 0
        if batch:
            yield batch

    async def _find_documents(self, batch: Sequence[ImportedDocument]) -> dict[str, Document]:
        ids = [document.document_id for document in batch]
        return await documents.find_by_ids(self._database, self._request.organization_id, ids)

    async def _store_knowledge_base(self, plan: ImportPlan) -> str:
        kb = self._build(plan)

        async def store(session: MongoSession) -> str:
            await organizations.serialize_transactions(self._database, session, kb.organization_id)
            # Of another import of this file at the same time, or of this one, if its answer was lost.
            if not self._request.again and (other := await self._find_imported(session)) is not None:
                return other
            await self._require_quota(session)
            await store_new_knowledge_base(self._database, session, kb, source=SOURCE)
            return kb.kb_id

        return await in_transaction(self._database, store)

    def _build(self, plan: ImportPlan) -> KnowledgeBase:
        kb_id, created_at, configuration = new_kb_id(), now(), plan.configuration
        return KnowledgeBase(
            kb_id=kb_id,
            organization_id=self._request.organization_id,
            name=self._request.name or configuration.name,
            description=configuration.description,
            tag_ids=plan.tag_ids,
            tags_version=1,
            chunker_type=configuration.chunker_type,
            chunk_size=configuration.chunk_size,
            chunk_overlap=configuration.chunk_overlap,
            embedding_model=configuration.embedding_model,
            embedding_dimensions=configuration.embedding_dimensions,
            max_chunks_per_document=configuration.max_chunks_per_document,
            status=Status.CREATING,
            status_reason=None,
            vector_collection=knowledge_bases.build_collection_name(kb_id),
            created_at=created_at,
            updated_at=created_at,
            created_by=self._creator,
            updated_by=self._creator,
            coalesce_neighbors=configuration.coalesce_neighbors,
            min_score=configuration.min_score,
            text_analyzer=configuration.text_analyzer,
            text_normalization=configuration.text_normalization,
            filterable_metadata=tuple(dict.fromkeys(configuration.filterable_metadata)),
            refuse_sensitive=configuration.refuse_sensitive,
            rate_limits=configuration.rate_limits.model_dump(exclude_none=True),
        )
