"""langchain-mongodb."""

import re
from typing import Any

import pytest
from langchain_mongodb import MongoDBAtlasVectorSearch
from langchain_mongodb.retrievers import MongoDBAtlasFullTextSearchRetriever, MongoDBAtlasHybridSearchRetriever
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tests.clients.conftest import ROOT, TEXTS, Deployment, eventually
from tests.clients.embedding import DIMENSIONS, embed


class Embeddings:
    """Embedding model in the form that LangChain takes."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [float(value) for value in embed(text)]


@pytest.fixture
def store(mongo: MongoClient[dict[str, Any]], database_name: str) -> Any:
    """A filled vector store with its own index."""
    collection = mongo[database_name].create_collection("langchain")
    store = MongoDBAtlasVectorSearch(collection, Embeddings(), index_name="vectors", auto_create_index=False)
    store.create_vector_search_index(dimensions=DIMENSIONS, filters=["color"], wait_until_complete=15)
    store.add_texts(TEXTS, [{"color": "red" if "red" in text else "yellow"} for text in TEXTS])
    eventually(lambda: len(store.similarity_search("red", k=10)) == len(TEXTS))
    return store


def contents(documents: list[Any]) -> list[str]:
    return [document.page_content for document in documents]


def test_similar_texts_are_found_with_their_scores(store: Any) -> None:
    (document, score), *_ = store.similarity_search_with_score("apples are red", k=2)
    assert document.page_content == "apples are red"
    assert score == pytest.approx(1.0, abs=1e-4)


def test_a_search_can_be_filtered_and_made_diverse(store: Any) -> None:
    yellow = store.similarity_search("are", k=10, pre_filter={"color": "yellow"})
    assert set(contents(yellow)) == {"bananas are yellow", "a yellow submarine"}
    assert len(store.max_marginal_relevance_search("red", k=2, fetch_k=4)) == 2
    with pytest.raises(OperationFailure):
        store.similarity_search("are", pre_filter={"undeclared": 1})


def test_deleted_texts_are_not_found(store: Any) -> None:
    (found,) = store.similarity_search("fire engine", k=1)
    store.delete([found.metadata["_id"]])
    eventually(lambda: found.page_content not in contents(store.similarity_search("fire engine", k=10)))


def test_the_full_text_retriever_makes_its_index_and_finds_by_words(store: Any) -> None:
    retriever = MongoDBAtlasFullTextSearchRetriever(
        collection=store.collection, search_index_name="texts", search_field="text", k=2
    )
    found = retriever.invoke("yellow submarine")
    assert contents(found) == ["a yellow submarine", "bananas are yellow"]
    assert found[0].metadata["score"] > found[1].metadata["score"] > 0


def test_the_full_text_retriever_filters_what_it_finds(store: Any) -> None:
    retriever = MongoDBAtlasFullTextSearchRetriever(
        collection=store.collection, search_index_name="texts", search_field=["text"], filter={"color": "red"}
    )
    assert set(contents(retriever.invoke("are engine"))) == {"apples are red", "the red fire engine"}


def test_the_hybrid_retriever_fuses_both_searches(store: Any) -> None:
    retriever = MongoDBAtlasHybridSearchRetriever(vectorstore=store, search_index_name="texts", k=3)
    found = retriever.invoke("red engine")
    assert contents(found)[0] == "the red fire engine"
    assert found[0].metadata["vector_score"] > 0
    assert found[0].metadata["fulltext_score"] > 0


@pytest.fixture
def knowledge_base(mongo: MongoClient[dict[str, Any]], deployment: Deployment) -> Any:
    """A store on chunks that the project has written, as its users would set it up."""
    kb = deployment.knowledge_base
    return MongoDBAtlasVectorSearch(
        mongo[kb["database"]][kb["collection"]],
        Embeddings(),
        index_name=kb["vector_index"],
        text_key="chunk_text",
        embedding_key="embedding",
        auto_create_index=False,
    )


def test_a_retriever_reads_a_knowledge_base_of_this_project(knowledge_base: Any, deployment: Deployment) -> None:
    scope = {key: deployment.knowledge_base[key] for key in ("organization_id", "kb_id")}
    retriever = knowledge_base.as_retriever(search_kwargs={"k": 2, "pre_filter": scope})
    found = retriever.invoke("the contract ends")
    assert {document.metadata["document_id"] for document in found} == {"contract"}
    assert found[0].metadata["document_name"] == "contract.pdf"
    other = knowledge_base.as_retriever(search_kwargs={"k": 2, "pre_filter": {"organization_id": "org-2"}})
    assert other.invoke("the contract ends") == []


def test_the_hybrid_retriever_reads_a_knowledge_base_of_this_project(
    knowledge_base: Any, deployment: Deployment
) -> None:
    retriever = MongoDBAtlasHybridSearchRetriever(
        vectorstore=knowledge_base, search_index_name=deployment.knowledge_base["text_index"], k=2
    )
    assert contents(retriever.invoke("INV-4711"))[0] == "The invoice number is INV-4711."


@pytest.fixture
def page() -> dict[str, Any]:
    """The functions of the how-to page."""
    markdown = (ROOT / "docs/how-to/read-with-langchain.md").read_text()
    code = re.search(r"```python\n(.*?)```", markdown, re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {}
    exec(code[1], names)
    return names


def test_the_code_of_the_how_to_page_finds_live_chunks_and_no_retired_ones(
    page: dict[str, Any], mongo: MongoClient[dict[str, Any]], deployment: Deployment
) -> None:
    kb = deployment.knowledge_base
    collection = mongo[kb["database"]][kb["collection"]]
    live = collection.find_one({"document_id": "contract", "chunk_index": 0})
    assert live is not None
    retired = {**live, "_id": "contract:retired:0", "chunk_text": "The contract ends in June.", "until": 1}
    store = page["open_knowledge_base"](mongo, kb["database"], kb["kb_id"], Embeddings())
    scope = {key: kb[key] for key in ("organization_id", "kb_id")}
    collection.insert_one(retired)
    try:
        eventually(
            lambda: (
                retired["chunk_text"] in contents(store.similarity_search("the contract ends", k=10, pre_filter=scope))
            )
        )
        found = page["search"](store, "the contract ends", **scope, top_k=2)
    finally:
        collection.delete_one({"_id": retired["_id"]})
    assert "The contract ends in December." in [text for text, _ in found]
    assert all(fields["until"] is None for _, fields in found)
    assert len(found) == 2
