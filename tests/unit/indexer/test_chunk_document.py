import asyncio
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from kb_indexer.chunk_document import chunk_document
from kb_indexer.chunking_threads import LARGE_TEXT, ChunkingThreads
from kb_shared.chunking import Chunk
from kb_shared.embedding.embedder import Embedded, Embedder
from kb_shared.embedding.purchases import Purpose
from kb_shared.errors import DocumentUnfit
from kb_shared.metering.budget import SpendAllowance
from kb_shared.mongo.document_texts import StoredText
from kb_shared.mongo.embedding_cache import VectorSpace
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from tests.unit.chunking.chunked import arbitrary_vectors
from tests.unit.indexer.test_membership import kb as knowledge_base

GROUPING = knowledge_base(
    chunker_type="semantic", chunk_size=100, chunk_overlap=20, rate_limits={"requests_per_minute": 60}
)
SENTENCES = 30
STORED = StoredText(
    "".join(f"The ship number {n} left the harbour at dawn. " for n in range(SENTENCES)), pages=((7, 0, 2000),)
)


class Recorder:
    """Answers as an embedder does, keeps what it was asked, and is the room in the budget, too."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.reserved = 0

    async def embed(self, texts: Sequence[str], **asked: Any) -> Embedded:
        self.asked.append(asked)
        return Embedded(
            arbitrary_vectors(texts), generated=len(texts), cached=0, found=0, space=VectorSpace("o", "p", "m", 3)
        )

    async def reserve(self, count: int) -> None:
        assert not self.asked, "before anything is paid"
        self.reserved += count


async def chunked(stored: StoredText, kb: KnowledgeBase, buyer: Recorder, threads: ChunkingThreads) -> list[Chunk]:
    return await chunk_document(
        stored, kb, embedder=cast("Embedder", buyer), allowance=cast("SpendAllowance", buyer), threads=threads
    )


@pytest.fixture
def threads() -> Iterator[ChunkingThreads]:
    threads = ChunkingThreads()
    yield threads
    threads.close()


async def test_vectors_of_sentences_are_bought_for_the_knowledge_base_within_its_limits(
    threads: ChunkingThreads,
) -> None:
    embedder = Recorder()
    chunks = await chunked(STORED, GROUPING, embedder, threads)
    assert len(chunks) > 2
    assert embedder.reserved >= 2 * SENTENCES + len(chunks) - 3
    assert {chunk.page_start for chunk in chunks} == {7}
    assert embedder.asked == [
        {
            "model": GROUPING.embedding_model,
            "dimensions": GROUPING.embedding_dimensions,
            "purpose": Purpose(GROUPING.organization_id, GROUPING.kb_id, "index", "document", short_lived=True),
            "rate_limits": {"requests_per_minute": 60},
            "allowance": embedder,
        }
    ]


@pytest.mark.parametrize("chunker_type", ["recursive", "semantic"])
async def test_nothing_is_bought_for_a_document_of_too_many_chunks(threads: ChunkingThreads, chunker_type: str) -> None:
    embedder = Recorder()
    kb = replace(GROUPING, chunker_type=chunker_type, max_chunks_per_document=2)
    with pytest.raises(DocumentUnfit, match="takes at most 2 a document"):
        await chunked(STORED, kb, embedder, threads)
    assert embedder.asked == []


async def test_a_large_text_keeps_no_other_waiting(threads: ChunkingThreads) -> None:
    plain = replace(GROUPING, chunker_type="recursive")
    go_on = threading.Event()
    # Whatever large texts take, as long as they like.
    waiting = asyncio.create_task(threads.work("another", "x" * (LARGE_TEXT + 1), go_on.wait))
    await asyncio.sleep(0)
    large = asyncio.create_task(chunked(StoredText("A word. " * (LARGE_TEXT // 7), ()), plain, Recorder(), threads))
    assert len(await chunked(STORED, plain, Recorder(), threads)) > 2
    assert not large.done()
    go_on.set()
    await waiting
    with pytest.raises(DocumentUnfit):
        await large
