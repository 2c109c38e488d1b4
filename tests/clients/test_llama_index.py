"""llama-index-vector-stores-mongodb."""

from typing import Any

import pytest
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode
from llama_index.vector_stores.mongodb import MongoDBAtlasVectorSearch
from pymongo import MongoClient

from tests.clients.conftest import TEXTS, Deployment, eventually
from tests.clients.embedding import DIMENSIONS, embed

YELLOW = MetadataFilters(filters=[MetadataFilter(key="color", value="yellow")])


@pytest.fixture
def store(
    mongo: MongoClient[dict[str, Any]], deployment: Deployment, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> Any:
    # It insists on this variable even when it is given a client.
    monkeypatch.setenv("MONGODB_URI", deployment.uri)
    store = MongoDBAtlasVectorSearch(
        mongo, db_name=database_name, collection_name="llama", vector_index_name="vectors", fulltext_index_name="texts"
    )
    nodes = [
        TextNode(
            text=text,
            embedding=[float(value) for value in embed(text)],
            metadata={"color": "red" if "red" in text else "yellow"},
        )
        for text in TEXTS
    ]
    store.add(nodes)
    store.create_vector_search_index(
        dimensions=DIMENSIONS, path="embedding", similarity="cosine", filters=["metadata.color"], wait_until_complete=15
    )
    store.create_fulltext_search_index(field="text", wait_until_complete=15)
    eventually(lambda: len(texts_of(store, VectorStoreQueryMode.DEFAULT, "red", top_k=10)) == len(TEXTS))
    return store


def texts_of(
    store: Any, mode: VectorStoreQueryMode, query: str, *, top_k: int = 2, filters: MetadataFilters | None = None
) -> list[str]:
    asked = VectorStoreQuery(
        query_str=query,
        query_embedding=[float(value) for value in embed(query)],
        similarity_top_k=top_k,
        sparse_top_k=top_k,
        hybrid_top_k=top_k,
        mode=mode,
        filters=filters,
    )
    return [node.get_content() for node in store.query(asked).nodes]


def test_similar_texts_are_found_also_with_a_filter(store: Any) -> None:
    assert texts_of(store, VectorStoreQueryMode.DEFAULT, "apples are red", top_k=1) == ["apples are red"]
    yellow = texts_of(store, VectorStoreQueryMode.DEFAULT, "apples are red", top_k=10, filters=YELLOW)
    assert set(yellow) == {"bananas are yellow", "a yellow submarine"}


def test_texts_are_found_by_their_words(store: Any) -> None:
    found = texts_of(store, VectorStoreQueryMode.TEXT_SEARCH, "yellow submarine")
    assert found == ["a yellow submarine", "bananas are yellow"]
    yellow = texts_of(store, VectorStoreQueryMode.TEXT_SEARCH, "red yellow", top_k=10, filters=YELLOW)
    assert set(yellow) == {"bananas are yellow", "a yellow submarine"}


def test_both_searches_are_fused(store: Any) -> None:
    assert texts_of(store, VectorStoreQueryMode.HYBRID, "red engine")[0] == "the red fire engine"
