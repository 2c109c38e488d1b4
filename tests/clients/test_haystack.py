"""mongodb-atlas-haystack."""

from typing import Any

import pytest
from haystack import Document
from haystack.utils import Secret
from haystack_integrations.components.retrievers.mongodb_atlas import (
    MongoDBAtlasEmbeddingRetriever,
    MongoDBAtlasFullTextRetriever,
)
from haystack_integrations.document_stores.mongodb_atlas import MongoDBAtlasDocumentStore
from pymongo import MongoClient

from tests.clients.conftest import TEXTS, Deployment, create_ready_indexes, eventually
from tests.clients.embedding import embed

YELLOW = {"field": "meta.color", "operator": "==", "value": "yellow"}


def vector(text: str) -> list[float]:
    return [float(value) for value in embed(text)]


@pytest.fixture
def store(mongo: MongoClient[dict[str, Any]], deployment: Deployment, database_name: str) -> Any:
    collection = mongo[database_name].create_collection("haystack")
    create_ready_indexes(collection, text_path="content", filters=("meta.color",))
    store = MongoDBAtlasDocumentStore(
        mongo_connection_string=Secret.from_token(deployment.uri),
        database_name=database_name,
        collection_name=collection.name,
        vector_search_index="vectors",
        full_text_search_index="texts",
    )
    store.write_documents(
        [
            Document(content=text, embedding=vector(text), meta={"color": "red" if "red" in text else "yellow"})
            for text in TEXTS
        ]
    )
    by_vector = MongoDBAtlasEmbeddingRetriever(document_store=store, top_k=10)
    by_words = MongoDBAtlasFullTextRetriever(document_store=store)
    eventually(lambda: len(found(by_vector, query_embedding=vector("red"))) == len(TEXTS))
    eventually(lambda: len(found(by_words, query="red yellow")) == len(TEXTS))
    return store


def found(retriever: Any, **query: Any) -> list[str]:
    return [document.content for document in retriever.run(**query)["documents"]]


def test_similar_texts_are_found_also_with_a_filter(store: Any) -> None:
    retriever = MongoDBAtlasEmbeddingRetriever(document_store=store, top_k=2)
    assert found(retriever, query_embedding=vector("apples are red"))[0] == "apples are red"
    yellow = found(retriever, query_embedding=vector("apples are red"), filters=YELLOW)
    assert set(yellow) == {"bananas are yellow", "a yellow submarine"}


def test_texts_are_found_by_their_words_also_with_typing_errors(store: Any) -> None:
    retriever = MongoDBAtlasFullTextRetriever(document_store=store, top_k=2)
    assert found(retriever, query="yellow submarine") == ["a yellow submarine", "bananas are yellow"]
    assert found(retriever, query="submarin", fuzzy={"maxEdits": 1}) == ["a yellow submarine"]
    assert found(retriever, query="are red", match_criteria="all") == ["apples are red"]
    assert found(retriever, query=["red", "submarine"], filters=YELLOW) == ["a yellow submarine"]
    scored = retriever.run(query="yellow", score={"constant": {"value": 7}})["documents"]
    assert [document.score for document in scored] == [7.0, 7.0]


def test_documents_are_counted_and_deleted(store: Any) -> None:
    assert store.count_documents() == len(TEXTS)
    (document,) = store.filter_documents({"field": "content", "operator": "==", "value": "apples are red"})
    store.delete_documents([document.id])
    retriever = MongoDBAtlasFullTextRetriever(document_store=store)
    eventually(lambda: found(retriever, query="apples") == [])
