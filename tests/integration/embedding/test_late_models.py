"""Late models behind the same door as all others: cached, charged once, and their failures told apart."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from kb_shared.embedding import late_models
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.embedding.embedder import Embedded, Embedder
from kb_shared.embedding.late_text import LateText
from kb_shared.embedding.purchases import Purpose
from kb_shared.errors import ProviderUnavailable
from kb_shared.mongo import embedding_cache, spu_ledger
from kb_shared.mongo.database import Database
from kb_shared.mongo.vector import Vector
from kb_shared.settings import EmbeddingSettings

LETTERS: NDArray[np.float32] = np.eye(128, dtype=np.float32)
SECRET = "text that no log may contain"


class Letters:
    """Each letter is a token; its vector tells which it is."""

    max_tokens = 1_000

    def offsets(self, text: str) -> list[tuple[int, int]]:
        return [(at, at + 1) for at in range(len(text))]

    def token_vectors(self, text: str) -> tuple[list[tuple[int, int]], NDArray[np.float32]]:
        if SECRET in text:
            raise RuntimeError(text)
        return self.offsets(text), LETTERS[[ord(letter) for letter in text]]

    def query_vector(self, text: str) -> Vector:
        vector: Vector = LETTERS[ord(text[0])]
        return vector


@pytest.fixture
async def embedder(
    database: Database, make_embedder: Callable[..., Embedder], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Embedder]:
    loaded: list[str] = []

    def load(source: str) -> Letters:
        loaded.append(source)
        return Letters()

    monkeypatch.setattr(late_models, "load", load)
    settings = EmbeddingSettings().model_copy(update={"late_models": {"letters": "/models/letters"}})
    embedder = create_embedder(database, settings, patience_s=0.2)
    yield embedder
    assert loaded == ["/models/letters"]
    await embedder.close()


async def embed(embedder: Embedder, purpose: Purpose, *texts: str) -> Embedded:
    return await embedder.embed(texts, model="letters", dimensions=128, purpose=purpose)


async def test_a_piece_of_a_window_is_bought_once_and_charged_as_any_other_text(
    database: Database, embedder: Embedder, indexing: Purpose
) -> None:
    pieces = [LateText("abc", start, start + 1).written() for start in range(3)]
    first = await embed(embedder, indexing, *pieces)
    again = await embed(embedder, indexing, *pieces)
    assert [int(vector.argmax()) for vector in first.vectors] == [ord(letter) for letter in "abc"]
    assert np.array_equal(first.vectors, again.vectors)
    assert (first.generated, again.generated) == (3, 0)
    assert [row["count"] async for row in database[spu_ledger.NAME].find()] == [3]


async def test_a_query_is_embedded_by_the_same_model_without_a_window(embedder: Embedder, indexing: Purpose) -> None:
    asked = await embed(embedder, replace(indexing, operation="search", input_type="query"), "1:2:three")
    assert int(asked.vectors[0].argmax()) == ord("1")


async def test_a_failure_of_a_late_model_is_transient_and_quotes_no_text(
    database: Database, embedder: Embedder, indexing: Purpose
) -> None:
    with pytest.raises(ProviderUnavailable) as failed:
        await embed(embedder, indexing, SECRET)
    assert failed.value.error_type == "late_model_failed"
    assert str(failed.value) == "the model 'letters' of this deployment fails: RuntimeError"
    assert failed.value.__context__ is None
    assert await database[embedding_cache.NAME].count_documents({}) == 0
