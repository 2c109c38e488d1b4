"""The rules run against the search node; `ATLAS_URI` points them at a real Atlas or atlas-local deployment."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from tests.conformance.atlas_search.deployment import (
    ATLAS_URI,
    INDEX_NAME,
    Collection,
    Document,
    create_ready_texts,
    eventually,
    found_ids,
    model,
    own_collection,
    search_ids,
    wait_ready,
)
from tests.conformance.atlas_search.library import FIELDS, SIZE, Library, fill_library
from tests.conformance.atlas_search.texts import DEFINITION, TEXTS, documents


def pytest_report_header() -> str:
    return f"atlas search rules: {'ATLAS_URI' if ATLAS_URI else 'the search node'}"


@pytest.fixture(scope="session")
def atlas_uri(request: pytest.FixtureRequest) -> str:
    if ATLAS_URI is not None:
        return ATLAS_URI
    # Not a parameter of this fixture: with ATLAS_URI no server is to be started.
    uri: str = request.getfixturevalue("search_node").uri
    return uri


@pytest.fixture(scope="session")
async def atlas(atlas_uri: str) -> AsyncIterator[AsyncMongoClient[Document]]:
    """A client of the deployment whose rules are checked."""
    async with AsyncMongoClient[dict[str, Any]](atlas_uri, tz_aware=True) as client:
        yield client


@pytest.fixture
async def things(atlas: AsyncMongoClient[Document]) -> AsyncIterator[Collection]:
    """An existing, empty collection of this test's own."""
    async with own_collection(atlas) as collection:
        yield collection


@pytest.fixture(scope="session")
async def library(atlas: AsyncMongoClient[Document]) -> AsyncIterator[Library]:
    """A filled collection with a ready index; tests only read it."""
    async with own_collection(atlas) as collection:
        library = await fill_library(collection)
        await collection.create_search_index(model(*FIELDS, name=INDEX_NAME))
        await wait_ready(collection)

        async def complete() -> bool:
            return len(await found_ids(collection, library.query)) == SIZE

        await eventually(complete)
        yield library


@pytest.fixture(scope="session")
async def texts(atlas: AsyncMongoClient[Document]) -> AsyncIterator[Collection]:
    """The documents of `texts.py` with a ready index; tests only read them."""
    async with own_collection(atlas) as collection:
        await collection.insert_many(documents())
        await create_ready_texts(collection, DEFINITION)

        async def complete() -> bool:
            return len(await search_ids(collection, {"exists": {"path": "text"}})) == len(TEXTS)

        await eventually(complete)
        yield collection
