"""Chunk a document as its KB says: in a thread, with vectors from the embedder if the chunker asks for them."""

from functools import partial

import structlog

from kb_indexer.chunking_threads import ChunkingThreads
from kb_shared.chunking import (
    Chunk,
    ChunkerType,
    ChunkingConfig,
    PageSpan,
    VectorsWanted,
    advance,
    chunking_steps,
)
from kb_shared.embedding.embedder import Embedder
from kb_shared.embedding.purchases import Purpose
from kb_shared.errors import DocumentUnfit
from kb_shared.metering.budget import SpendAllowance
from kb_shared.mongo.document_texts import StoredText
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.text.text_normalization import for_model

log = structlog.get_logger()


async def chunk_document(
    stored: StoredText, kb: KnowledgeBase, *, embedder: Embedder, allowance: SpendAllowance, threads: ChunkingThreads
) -> list[Chunk]:
    """Return the chunks of `stored` for `kb`.

    Args:
        allowance: of the work on this document; also pays for the vectors of its chunks, after those of the grouping.

    Raises:
        DocumentUnfit: more chunks than the KB takes, known before anything is paid for.
        BudgetExhausted: the budget has no room for all vectors that the document needs, likewise.
        KbError: whatever `Embedder.embed` raises, where the chunker groups by meaning.
    """
    config = ChunkingConfig(
        chunker_type=ChunkerType(kb.chunker_type),
        chunk_size=kb.chunk_size,
        chunk_overlap=kb.chunk_overlap,
        text_normalization=kb.text_normalization,
    )
    pages = [PageSpan(page, start, end) for page, start, end in stored.pages]
    steps = chunking_steps(
        stored.text,
        config,
        pages=pages,
        max_chunks=kb.max_chunks_per_document,
        embedding_text=stored.embedding_text,
    )
    outcome = await threads.work(kb.organization_id, stored.text, partial(advance, steps))
    if isinstance(outcome, VectorsWanted):
        log.info("sentences.counted", embeddings_at_most=outcome.of_document)
        # There are several calls, and the budget must not end in their middle.
        await allowance.reserve(outcome.of_document)
    while isinstance(outcome, VectorsWanted):
        # Kept for a week only: they are needed again if the document comes back changed, or after a crash.
        embedded = await embedder.embed(
            [for_model(text, kb.text_normalization) for text in outcome.texts],
            model=kb.embedding_model,
            dimensions=kb.embedding_dimensions,
            purpose=Purpose(kb.organization_id, kb.kb_id, "index", "document", short_lived=True),
            rate_limits=kb.rate_limits,
            allowance=allowance,
        )
        outcome = await threads.work(kb.organization_id, stored.text, partial(advance, steps, embedded.vectors))
    if len(outcome) > kb.max_chunks_per_document:
        raise DocumentUnfit(
            f"{len(outcome)} chunks; the knowledge base takes at most {kb.max_chunks_per_document} a document: raise"
            " its max_chunks_per_document, or send the text in parts"
        )
    return outcome
