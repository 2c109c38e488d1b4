"""The MongoDB store of mem0ai."""

from typing import Any

import pytest
from mem0.vector_stores.mongodb import MongoDB
from pymongo import MongoClient

from tests.clients.conftest import TEXTS, Deployment, eventually
from tests.clients.embedding import DIMENSIONS, embed


def vector(text: str) -> list[float]:
    return [float(value) for value in embed(text)]


@pytest.fixture
def store(mongo: MongoClient[dict[str, Any]], deployment: Deployment, database_name: str) -> Any:
    store = MongoDB(database_name, "memories", DIMENSIONS, deployment.uri)
    collection = mongo[database_name]["memories"]
    eventually(lambda: [one["status"] for one in collection.list_search_indexes()] == ["READY", "READY"])
    payloads = [{"data": text, "user_id": "ada" if "red" in text else "bob"} for text in TEXTS]
    store.insert([vector(text) for text in TEXTS], payloads, ids=[f"m{number}" for number in range(len(TEXTS))])
    eventually(lambda: len(store.search("", vector("red"), top_k=10)) == len(TEXTS))
    eventually(lambda: len(store.keyword_search("red yellow", top_k=10)) == len(TEXTS))
    yield store
    store.client.close()


def test_similar_memories_are_found_also_with_a_filter(store: Any) -> None:
    assert [hit.id for hit in store.search("", vector("apples are red"), top_k=1)] == ["m0"]
    mine = store.search("", vector("apples are red"), top_k=10, filters={"user_id": "bob"})
    assert {hit.id for hit in mine} == {"m1", "m3"}


def test_memories_are_found_by_their_words(store: Any) -> None:
    hits = store.keyword_search("yellow submarine", top_k=2)
    assert [hit.id for hit in hits] == ["m3", "m1"]
    assert hits[0].score > hits[1].score > 0
    assert [hit.id for hit in store.keyword_search("red yellow", filters={"user_id": "ada"})] == ["m0", "m2"]


def test_memories_are_changed_and_deleted(store: Any) -> None:
    store.update("m0", vector("pears are green"), {"data": "pears are green", "user_id": "ada"})
    assert store.get("m0").payload["data"] == "pears are green"
    eventually(lambda: [hit.id for hit in store.keyword_search("pears")] == ["m0"])
    store.delete("m0")
    eventually(lambda: store.keyword_search("pears") == [])
    assert store.get("m0") is None
