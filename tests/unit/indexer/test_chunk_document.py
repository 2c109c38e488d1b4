from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, cast

import pytest

from kb_indexer.chunk_document import chunk_document
from kb_shared.embedding.embedder import Embedded, Embedder
from kb_shared.embedding.purchases import Purpose
from kb_shared.errors import DocumentUnfit
from kb_shared.mongo.document_texts import StoredText
from tests.unit.chunking.chunked import arbitrary_vectors
from tests.unit.indexer.test_membership import kb as knowledge_base

GROUPING = knowledge_base(
    chunker_type="semantic", chunk_size=100, chunk_overlap=20, rate_limits={"requests_per_minute": 60}
)
STORED = StoredText(
    "".join(f"The ship number {n} left the harbour at dawn. " for n in range(30)), pages=((7, 0, 2000),)
)


class Recorder:
    """Answers as an embedder does, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    async def embed(self, texts: Sequence[str], **asked: Any) -> Embedded:
        self.asked.append(asked)
        return Embedded(arbitrary_vectors(texts), generated=len(texts), cached=0)

    async def ensure_room(self, organization_id: str, count: int) -> None:
        assert not self.asked, "before anything is paid"


async def test_vectors_of_sentences_are_bought_for_the_knowledge_base_within_its_limits() -> None:
    embedder = Recorder()
    with ThreadPoolExecutor(1) as cpu:
        chunks = await chunk_document(STORED, GROUPING, embedder=cast("Embedder", embedder), cpu=cpu)
    assert len(chunks) > 2
    assert {chunk.page_start for chunk in chunks} == {7}
    assert embedder.asked == [
        {
            "model": GROUPING.embedding_model,
            "dimensions": GROUPING.embedding_dimensions,
            "purpose": Purpose(GROUPING.organization_id, GROUPING.kb_id, "index", "document", short_lived=True),
            "rate_limits": {"requests_per_minute": 60},
        }
    ]


@pytest.mark.parametrize("chunker_type", ["recursive", "semantic"])
async def test_nothing_is_bought_for_a_document_of_too_many_chunks(chunker_type: str) -> None:
    embedder = Recorder()
    kb = replace(GROUPING, chunker_type=chunker_type, max_chunks_per_document=2)
    with ThreadPoolExecutor(1) as cpu, pytest.raises(DocumentUnfit, match="takes at most 2 a document"):
        await chunk_document(STORED, kb, embedder=cast("Embedder", embedder), cpu=cpu)
    assert embedder.asked == []
