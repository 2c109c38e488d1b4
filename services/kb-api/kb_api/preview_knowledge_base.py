"""Previews a KB: what settings and tags would bring, without storing or charging anything."""

from dataclasses import dataclass, replace

from kb_api.create_knowledge_base import (
    IndexSettings,
    allowed_max_chunks,
    choose_settings,
    find_warnings,
    indexing,
    model_refusals,
    require_known_tags,
)
from kb_api.preview_documents import (
    MOST_CHARACTERS,
    DocumentsPreviewer,
    PreviewedVectors,
    PreviewScope,
    chunking_request,
    count_document,
)
from kb_api.preview_estimate import CountedDocument
from kb_api.settings import ApiSettings
from kb_api.text_language import SAMPLED_CHARACTERS, TextLanguage, analyzer_warning, main_language
from kb_api.text_worker.client import ChunkedText, TextWorker
from kb_contracts.api.knowledge_bases import CreateKnowledgeBase
from kb_contracts.api.previews import (
    DetectedLanguage,
    KnowledgeBasePreview,
    PreviewedChunkView,
    PreviewedDocuments,
    PreviewedSettings,
    PreviewedText,
    PreviewKnowledgeBase,
)
from kb_shared.concurrency.fair_queue import pause_turn
from kb_shared.embedding.embedder import Embedder
from kb_shared.embedding.models import EmbeddingModel
from kb_shared.errors import NotFound
from kb_shared.http.authentication import Caller
from kb_shared.mongo import document_texts, documents, knowledge_bases
from kb_shared.mongo.database import Database
from kb_shared.mongo.document_texts import StoredText
from kb_shared.mongo.keys import DocumentKey, KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.prices import NANO_USD


@dataclass(frozen=True, slots=True)
class _Previewed:
    """The KB that is previewed; `kb` is None if it does not exist yet."""

    settings: IndexSettings
    vectors: PreviewedVectors
    kb: KnowledgeBase | None


class KnowledgeBasePreviewer:
    """Previews KBs."""

    def __init__(self, settings: ApiSettings, database: Database, *, embedder: Embedder, worker: TextWorker) -> None:
        self._settings = settings
        self._database = database
        self._embedder = embedder
        self._worker = worker
        self._documents = DocumentsPreviewer(database, worker)

    async def preview(self, caller: Caller, requested: PreviewKnowledgeBase) -> KnowledgeBasePreview:
        """Return what the settings would bring.

        Raises:
            NotFound: no such KB or document.
            RequestError: 422, as for the creation of the KB.
            PreviewUnavailable: the text worker did not answer in time.
        """
        previewed = await self._choose(caller.organization_id, requested)
        async with pause_turn():
            shown, beginnings = await self._preview_text(caller.organization_id, requested, previewed)
            counted, more = await self._preview_documents(caller.organization_id, requested, previewed)
            language = await self._detect_language(caller.organization_id, [*beginnings, *more])
        settings = previewed.settings
        warnings = await find_warnings(self._embedder.models, caller.organization_id, settings)
        if previewed.kb and (warning := analyzer_warning(previewed.kb.text_analyzer, language.code)):
            warnings = (*warnings, warning)
        return KnowledgeBasePreview(
            settings=PreviewedSettings(
                chunker_type=settings.chunker_type,
                chunk_size=settings.chunk_size,
                chunk_overlap=settings.chunk_overlap,
                embedding_model=settings.embedding_model,
                max_chunks_per_document=settings.max_chunks_per_document,
            ),
            documents=counted,
            text=shown,
            language=DetectedLanguage(
                language=language.code, share=round(language.share, 3), sampled_document_count=language.known
            ),
            suggested_text_analyzer=language.analyzer,
            warnings=list(warnings),
        )

    async def _choose(self, organization_id: str, requested: PreviewKnowledgeBase) -> _Previewed:
        kb = None
        if requested.kb_id is not None:
            kb = await knowledge_bases.get(self._database, KnowledgeBaseKey(organization_id, requested.kb_id))
            settings = IndexSettings.from_knowledge_base(kb)
            if requested.max_chunks_per_document is not None:
                limit = self._settings.max_chunks_per_document
                most = allowed_max_chunks(requested.max_chunks_per_document, limit=limit)
                settings = replace(settings, max_chunks_per_document=most)
        else:
            settings = choose_settings(self._settings, _as_creation(requested))
        with model_refusals():
            model = await self._embedder.models.get(organization_id, settings.embedding_model)
            dimensions = kb.embedding_dimensions if kb else await self._find_dimensions(organization_id, model)
        return _Previewed(settings, PreviewedVectors(self._embedder, organization_id, model, dimensions), kb)

    async def _find_dimensions(self, organization_id: str, model: EmbeddingModel) -> int | None:
        """Return the dimensions of a model's vectors, as far as they are known without asking it."""
        detected = await self._embedder.find_dimensions(model=model.name, purpose=indexing(organization_id))
        if detected is not None:
            return detected
        for kb in await knowledge_bases.find_of_organization(self._database, organization_id):
            if kb.embedding_model == model.name:
                return kb.embedding_dimensions
        return model.default_dimensions

    async def _preview_documents(
        self, organization_id: str, requested: PreviewKnowledgeBase, previewed: _Previewed
    ) -> tuple[PreviewedDocuments | None, list[str]]:
        kb = previewed.kb
        if requested.tag_ids is None and (kb is None or requested.text or requested.document_id):
            return None, []
        tag_ids = kb.tag_ids if kb and requested.tag_ids is None else requested.tag_ids or []
        if requested.tag_ids is not None:
            tag_ids = await require_known_tags(self._database, organization_id, tag_ids=requested.tag_ids)
        scope, removed = PreviewScope(organization_id, tag_ids), 0
        if kb is not None and requested.tag_ids is not None:
            scope = replace(scope, without=kb.tag_ids)
            removed = await documents.count_with_tags(
                self._database, organization_id, tag_ids=kb.tag_ids, without=tag_ids
            )
        own = await self._count_probe(organization_id, previewed.vectors.model) if kb is None else None
        return await self._documents.preview(
            scope, previewed.settings, previewed.vectors, removed=removed, own_embeddings=own
        )

    async def _count_probe(self, organization_id: str, model: EmbeddingModel) -> CountedDocument:
        """Count the embedding by which creation detects the dimensions of the model."""
        known = await self._embedder.find_dimensions(model=model.name, purpose=indexing(organization_id))
        if known is not None:
            return CountedDocument(0, 1, 0, 0, 0)
        tokens = self._embedder.probe_tokens
        return CountedDocument(0, 1, 1, model.nano_usd(tokens) or 0, tokens)

    async def _preview_text(
        self, organization_id: str, requested: PreviewKnowledgeBase, previewed: _Previewed
    ) -> tuple[PreviewedText | None, list[str]]:
        if requested.text is not None:
            stored = StoredText(requested.text, ())
        elif requested.document_id is not None:
            stored = await self._read_text(DocumentKey(organization_id, requested.document_id))
        else:
            return None, []
        text = stored.text[:MOST_CHARACTERS]
        pages = [page for page in stored.pages if page[1] < len(text)]
        request = chunking_request(text, previewed.settings, pages=pages, embedding_text=stored.embedding_text)
        chunked = await self._worker.chunk(organization_id, request)
        unpaid = await previewed.vectors.find_unpaid([chunk.chunk_hash for chunk in chunked.chunks])
        unlimited = replace(previewed.settings, max_chunks_per_document=len(chunked.chunks))
        counted = count_document(chunked, unlimited, seen=set(), unpaid=unpaid, model=previewed.vectors.model)
        shown = _show_text(text, chunked, counted, requested=requested, model=previewed.vectors.model)
        is_truncated = len(text) < len(stored.text)
        return shown.model_copy(update={"is_truncated": is_truncated}), [text[:SAMPLED_CHARACTERS]]

    async def _read_text(self, key: DocumentKey) -> StoredText:
        document = await documents.find(self._database, key)
        if document is None or document.text is None:
            raise NotFound("document")
        found = await document_texts.find_all(self._database, key.organization_id, [document.text.text_id])
        if document.text.text_id not in found:
            raise NotFound("document")
        return found[document.text.text_id]

    async def _detect_language(self, organization_id: str, texts: list[str]) -> TextLanguage:
        if not texts:
            return main_language([])
        return main_language(await self._worker.detect_languages(organization_id, texts))


def _as_creation(requested: PreviewKnowledgeBase) -> CreateKnowledgeBase:
    """Return the request that would create the KB, so that both choose the same defaults."""
    given = {name: getattr(requested, name) for name in requested.fixed_settings()}
    return CreateKnowledgeBase(name="preview", max_chunks_per_document=requested.max_chunks_per_document, **given)


def _show_text(
    text: str,
    chunked: ChunkedText,
    counted: CountedDocument,
    *,
    requested: PreviewKnowledgeBase,
    model: EmbeddingModel,
) -> PreviewedText:
    sizes = [chunk.token_count for chunk in chunked.chunks]
    page = range(len(sizes))[requested.skip : requested.skip + requested.limit]
    return PreviewedText(
        chunks=[
            PreviewedChunkView(
                chunk_index=index,
                content=text[chunk.start : chunk.end],
                start=chunk.start,
                end=chunk.end,
                token_count=chunk.token_count,
                context=chunk.context,
                heading_path=list(chunk.heading_path),
                page_start=chunk.page_start,
                page_end=chunk.page_end,
                chunk_type=chunk.chunk_type,
            )
            for index, chunk in ((index, chunked.chunks[index]) for index in page)
        ],
        chunk_count=len(sizes),
        min_tokens=min(sizes, default=0),
        mean_tokens=round(sum(sizes) / len(sizes), 1) if sizes else 0,
        max_tokens=max(sizes, default=0),
        embedding_count=counted.embeddings,
        cached_count=counted.embeddings - counted.unpaid,
        spus=counted.unpaid,
        usd=None if model.price is None else counted.nano_usd / NANO_USD,
        is_exact=chunked.embeddings_at_most is None,
        is_truncated=False,
    )
