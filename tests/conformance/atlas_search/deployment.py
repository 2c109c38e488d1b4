"""What the rules are checked with: waiting for a condition, searching, and telling a refusal."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from uuid import uuid4

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import OperationFailure
from pymongo.operations import SearchIndexModel

from tests.waiting import until

Document = dict[str, Any]
Collection = AsyncCollection[Document]

ATLAS_URI = os.environ.get("ATLAS_URI")
# A real deployment takes a minute for an index.
DEADLINE_S = 300.0 if ATLAS_URI else 60.0
POLL_S = 0.5 if ATLAS_URI else 0.005

SEARCH_FAILED = 8
BAD_DEFINITION = (2, 8, 125)
"""Codes of a refused definition: Atlas's control plane sends 2, mongot beside a mongod 8 or 125."""
INDEX_NAME = "vectors"
TEXT_INDEX_NAME = "texts"


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Return as soon as the condition holds; fail when it does not in the time that the deployment takes."""
    await until(condition, within_s=DEADLINE_S, every_s=POLL_S)


def vector_field(path: str = "embedding", dimensions: int = 4, similarity: str = "cosine", **more: Any) -> Document:
    return {"type": "vector", "path": path, "numDimensions": dimensions, "similarity": similarity, **more}


def filter_field(path: str) -> Document:
    return {"type": "filter", "path": path}


def model(*fields: Document, name: str = INDEX_NAME) -> SearchIndexModel:
    return SearchIndexModel(definition={"fields": list(fields)}, name=name, type="vectorSearch")


async def entry(collection: Collection, name: str = INDEX_NAME) -> Document | None:
    entries = [dict(one) async for one in await collection.list_search_indexes(name)]
    return entries[0] if entries else None


async def wait_ready(collection: Collection, name: str = INDEX_NAME) -> None:
    async def ready() -> bool:
        found = await entry(collection, name)
        return found is not None and found["queryable"] and found["status"] == "READY"

    await eventually(ready)


async def create_ready(collection: Collection, *fields: Document, name: str = INDEX_NAME) -> None:
    await collection.create_search_index(model(*fields, name=name))
    await wait_ready(collection, name)


def stage(query: list[float], **more: Any) -> Document:
    """Return an exact `$vectorSearch` of everything; `more` overrides its arguments, None leaves one out."""
    arguments = {"index": INDEX_NAME, "path": "embedding", "queryVector": query, "exact": True, "limit": 1000, **more}
    return {"$vectorSearch": {key: value for key, value in arguments.items() if value is not None}}


def text_model(definition: Document, name: str = TEXT_INDEX_NAME) -> SearchIndexModel:
    return SearchIndexModel(definition=definition, name=name, type="search")


def mappings(fields: Document | None = None, *, dynamic: bool = False, **more: Any) -> Document:
    """Return a definition of a search index."""
    return {"mappings": {"dynamic": dynamic, "fields": fields or {}}, **more}


async def create_ready_texts(collection: Collection, definition: Document, name: str = TEXT_INDEX_NAME) -> None:
    await collection.create_search_index(text_model(definition, name))
    await wait_ready(collection, name)


def search_stage(operator: Document, **more: Any) -> Document:
    return {"$search": {"index": TEXT_INDEX_NAME, **operator, **more}}


async def search_ids(collection: Collection, operator: Document, **more: Any) -> list[Any]:
    """Return the ids of what an operator finds, best first."""
    return [hit["_id"] for hit in await run(collection, search_stage(operator, **more), {"$project": {"_id": 1}})]


async def run(collection: Collection, *stages: Document, **options: Any) -> list[Document]:
    return await (await collection.aggregate(list(stages), **options)).to_list()


async def found_ids(collection: Collection, query: list[float], **more: Any) -> list[Any]:
    return [hit["_id"] for hit in await run(collection, stage(query, **more), {"$project": {"_id": 1}})]


@contextmanager
def refused(code: int | tuple[int, ...], text: str = "") -> Iterator[None]:
    """The block has to end in a refusal with that code, or one of these, whose message contains `text`."""
    codes = code if isinstance(code, tuple) else (code,)
    with pytest.raises(OperationFailure) as caught:
        yield
    assert caught.value.details is not None
    message = caught.value.details["errmsg"]
    assert (caught.value.code in codes, text in message) == (True, True), (caught.value.code, message)


def connect(uri: str, **options: Any) -> AsyncMongoClient[Document]:
    """Return a client that may be closed soon: one that is still connecting its monitors then would leak a socket."""
    return AsyncMongoClient(uri, directConnection=True, serverMonitoringMode="poll", **options)


@asynccontextmanager
async def own_collection(client: AsyncMongoClient[Document]) -> AsyncIterator[Collection]:
    """An existing, empty collection in a database of its own."""
    database = client[f"atlas_rules_{uuid4().hex[:12]}"]
    yield await database.create_collection("things")
    await client.drop_database(database.name)
