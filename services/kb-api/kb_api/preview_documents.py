"""Counts what the documents with some tags would bring to a KB: chunks, embeddings, money and time.

Each document is chunked as the indexer would. If these are many or long, a random sample of them is counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final

from kb_api.create_knowledge_base import IndexSettings, indexing
from kb_api.preview_estimate import CountedDocument, DocumentsEstimate, estimate_documents
from kb_api.preview_unavailable import PreviewUnavailable
from kb_api.text_language import SAMPLED_CHARACTERS, SAMPLED_DOCUMENTS
from kb_api.text_worker.client import ChunkedText, ChunkingRequest, TextWorker
from kb_contracts.api.previews import PreviewedDocuments, SampleError
from kb_shared.embedding.embedder import Embedder
from kb_shared.embedding.models import EmbeddingModel
from kb_shared.mongo import document_texts, documents, spu_ledger
from kb_shared.mongo.database import Database
from kb_shared.mongo.document_texts import StoredText
from kb_shared.prices import NANO_USD

MOST_DOCUMENTS: Final = 500
"""Number of documents up to which all are counted, if they are not too long."""
MOST_CHARACTERS_OF_ALL: Final = 5_000_000
"""Number of chunked characters after which no more documents are counted."""
MOST_CHARACTERS: Final = 1_000_000
"""Number of characters of a text that are chunked."""
TIME_LIMIT_S: Final = 20.0
"""Brake, since a person waits. What may be counted usually takes 4 s, most of it for the commands to MongoDB."""
_LOOKED_UP_AT_ONCE: Final = 1_000
_USUAL_EMBEDDINGS_PER_S: Final = 50
"""Speed of an organization that has embedded little in the last days."""
_SECONDS_PER_DOCUMENT: Final = 0.02
_UNTIL_SEARCHABLE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class PreviewScope:
    """Documents of a preview: those with one of `tag_ids` and none of `without`."""

    organization_id: str
    tag_ids: Sequence[str]
    without: Sequence[str] = ()


@dataclass(slots=True)
class CountedTexts:
    """Counts of what was chunked."""

    documents: list[CountedDocument] = field(default_factory=list)
    characters: int = 0
    beginnings: list[str] = field(default_factory=list)
    """Beginnings of some texts, whose language is detected."""
    is_grouped: bool = False
    """True if the chunker had to embed a text to find its chunks, which a preview does not do."""
    is_cut: bool = False
    """True if a text was longer than what is chunked."""
    seen: set[str] = field(default_factory=set)
    """Hashes of the texts that the documents so far have embedded."""


@dataclass(frozen=True, slots=True)
class PreviewedVectors:
    """Vectors of a KB's model that an organization has paid for."""

    embedder: Embedder
    organization_id: str
    model: EmbeddingModel
    """Model as the organization reaches it."""
    dimensions: int | None
    """Dimensions of the vectors; None if they are not known: then no vector counts as paid for."""

    async def find_unpaid(self, hashes: Sequence[str]) -> set[str]:
        """Return those of `hashes` of texts whose vectors would be paid for."""
        if self.dimensions is None:
            return set(hashes)
        unpaid = set[str]()
        for start in range(0, len(hashes), _LOOKED_UP_AT_ONCE):
            unpaid |= await self.embedder.find_unpaid(
                hashes[start : start + _LOOKED_UP_AT_ONCE],
                model=self.model.name,
                dimensions=self.dimensions,
                purpose=indexing(self.organization_id),
            )
        return unpaid


class DocumentsPreviewer:
    """Counts documents. One for a process."""

    def __init__(
        self, database: Database, worker: TextWorker, *, most_characters: int = MOST_CHARACTERS_OF_ALL
    ) -> None:
        self._database = database
        self._worker = worker
        self._most_characters = most_characters

    async def preview(
        self,
        scope: PreviewScope,
        settings: IndexSettings,
        known: PreviewedVectors,
        *,
        removed: int = 0,
        own_embeddings: CountedDocument | None = None,
    ) -> tuple[PreviewedDocuments, list[str]]:
        """Count what the documents would bring; return it with the beginnings of some of their texts.

        Args:
            scope: the documents.
            settings: of the KB.
            known: which vectors were paid for.
            removed: number of documents that leave the KB.
            own_embeddings: what the KB has embedded whatever its documents are.

        Raises:
            PreviewUnavailable: no document could be chunked.
        """
        total = await documents.count_with_tags(
            self._database, scope.organization_id, tag_ids=scope.tag_ids, without=scope.without
        )
        waiting = await documents.count_with_tags(
            self._database, scope.organization_id, tag_ids=scope.tag_ids, without=scope.without, alive=False
        )
        counted = await self._count(scope, settings, known)
        if total and not counted.documents:
            raise PreviewUnavailable("No document could be chunked: others are replacing their texts")
        estimate = estimate_documents(counted.documents, total)
        own = own_embeddings or CountedDocument(0, 0, 0, 0, 0)
        is_sample = len(counted.documents) < total
        reason = "sample" if is_sample else "groups_by_meaning" if counted.is_grouped else None
        return PreviewedDocuments(
            document_count=estimate.documents,
            chunk_count=estimate.chunks,
            too_large_count=estimate.too_large,
            waiting_count=waiting,
            removed_document_count=removed,
            embedding_count=estimate.embeddings + own.embeddings,
            cached_count=estimate.embeddings - estimate.unpaid + own.embeddings - own.unpaid,
            spus=estimate.unpaid + own.unpaid,
            usd=None if known.model.price is None else (estimate.nano_usd + own.nano_usd) / NANO_USD,
            duration_s=round(await self._estimate_duration_s(scope.organization_id, estimate, known.model), 1),
            is_exact=reason is None and not counted.is_cut,
            estimate_reason=reason or ("long_text" if counted.is_cut else None),
            sampled_document_count=len(counted.documents),
            sample_error=SampleError(chunk_count=estimate.chunks_error, spus=estimate.unpaid_error)
            if is_sample
            else None,
        ), counted.beginnings

    async def _count(self, scope: PreviewScope, settings: IndexSettings, known: PreviewedVectors) -> CountedTexts:
        end: float | None = None
        counted = CountedTexts()
        text_ids = await documents.sample_texts_with_tags(
            self._database,
            scope.organization_id,
            tag_ids=scope.tag_ids,
            without=scope.without,
            at_most=MOST_DOCUMENTS,
        )
        for text_id in text_ids:
            if counted.characters >= self._most_characters or (end is not None and monotonic() >= end):
                break
            stored = await document_texts.find_beginning(
                self._database, scope.organization_id, text_id, characters=MOST_CHARACTERS + 1
            )
            # Without one, a newer text has replaced it since.
            if stored is not None:
                document = await self._count_text(
                    scope.organization_id,
                    text_id=text_id,
                    stored=stored,
                    settings=settings,
                    known=known,
                    counted=counted,
                )
                counted.documents.append(document)
            # From the first answer on: the worker may have had to start.
            end = end or monotonic() + TIME_LIMIT_S
        return counted

    async def _count_text(
        self,
        organization_id: str,
        *,
        text_id: str,
        stored: StoredText,
        settings: IndexSettings,
        known: PreviewedVectors,
        counted: CountedTexts,
    ) -> CountedDocument:
        text = stored.text
        if len(counted.beginnings) < SAMPLED_DOCUMENTS:
            counted.beginnings.append(text[:SAMPLED_CHARACTERS])
        chunked_text = text[:MOST_CHARACTERS]
        counted.characters += len(chunked_text)
        request = chunking_request(chunked_text, settings, embedding_text=stored.embedding_text)
        chunked = await self._worker.chunk(organization_id, request)
        factor = 1.0
        if len(text) > MOST_CHARACTERS:
            counted.is_cut = True
            size = await document_texts.find_size_bytes(self._database, organization_id, text_id)
            factor = max(1.0, (size or 0) / len(chunked_text.encode()))
        counted.is_grouped |= chunked.embeddings_at_most is not None
        hashes = [chunk.chunk_hash for chunk in chunked.chunks if chunk.chunk_hash not in counted.seen]
        unpaid = await known.find_unpaid(hashes)
        return count_document(chunked, settings, seen=counted.seen, unpaid=unpaid, model=known.model, factor=factor)

    async def _estimate_duration_s(
        self, organization_id: str, estimate: DocumentsEstimate, model: EmbeddingModel
    ) -> float:
        """Estimate roughly how long the indexer takes, if it has nothing else to do for the organization."""
        since = datetime.now(UTC) - timedelta(days=7)
        a_minute = await spu_ledger.find_busiest_minute(self._database, organization_id, model=model.name, since=since)
        seconds = estimate.unpaid / max(a_minute / 60, _USUAL_EMBEDDINGS_PER_S)
        if model.access is not None and model.access.tokens_per_minute:
            seconds = max(seconds, estimate.tokens / model.access.tokens_per_minute * 60)
        return seconds + estimate.documents * _SECONDS_PER_DOCUMENT + _UNTIL_SEARCHABLE_S


def chunking_request(
    text: str,
    settings: IndexSettings,
    *,
    pages: Sequence[tuple[int, int, int]] = (),
    embedding_text: str | None = None,
) -> ChunkingRequest:
    return ChunkingRequest(
        text=text,
        chunker_type=settings.chunker_type,
        chunk_size=settings.chunk_size,
        chunk_overlap=settings.chunk_overlap,
        text_normalization=settings.text_normalization,
        max_chunks=settings.max_chunks_per_document,
        pages=pages,
        embedding_text=embedding_text,
    )


def count_document(
    chunked: ChunkedText,
    settings: IndexSettings,
    *,
    seen: set[str],
    unpaid: set[str],
    model: EmbeddingModel,
    factor: float = 1.0,
) -> CountedDocument:
    """Count one document; adds the hashes of its chunks to `seen`.

    Args:
        chunked: its chunks.
        settings: of the KB.
        seen: hashes of what other documents have embedded already.
        unpaid: hashes of its chunks whose vectors are not in the cache.
        model: of the KB.
        factor: by how much the whole document is longer than what was chunked.
    """
    if len(chunked.chunks) * factor > settings.max_chunks_per_document:
        return CountedDocument(0, 0, 0, 0, 0, is_too_large=True)
    own: Mapping[str, int] = {
        chunk.chunk_hash: estimate_tokens(chunk.embedded_bytes)
        for chunk in chunked.chunks
        if chunk.chunk_hash not in seen
    }
    seen.update(own)
    tokens = {chunk_hash: own[chunk_hash] for chunk_hash in own if chunk_hash in unpaid}
    nano_usd = sum(model.nano_usd(each) or 0 for each in tokens.values())
    embeddings, bought, all_tokens = len(own), len(tokens), sum(tokens.values())
    if chunked.embeddings_at_most is not None:
        embeddings = bought = chunked.embeddings_at_most
        nano_usd, all_tokens = nano_usd * _GROUPED_TEXTS, all_tokens * _GROUPED_TEXTS
    return CountedDocument(
        chunks=round(len(chunked.chunks) * factor),
        embeddings=round(embeddings * factor),
        unpaid=round(bought * factor),
        nano_usd=round(nano_usd * factor),
        tokens=round(all_tokens * factor),
    )


_GROUPED_TEXTS: Final = 5
"""Greatest number of embedded texts with one sentence, if sentences are grouped: it alone, three windows, its chunk."""


def estimate_tokens(embedded_bytes: int) -> int:
    """Return the tokens of a text of this size as they are estimated when it is paid for."""
    return embedded_bytes // 3 + 1
