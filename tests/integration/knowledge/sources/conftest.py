from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import pytest
from pymongo import AsyncMongoClient

from kb_knowledge.indexes import COLLECTIONS
from kb_knowledge.sources.guarded_http import GuardedHttp
from kb_knowledge.sources.parse_item import ItemParser
from kb_shared.mongo.database import Database
from kb_shared.mongo.schema import create_indexes
from tests.conftest import begin_drop
from tests.indexes import delete_everything
from tests.integration.knowledge.sources.small_site import SmallSite, serve_small_site
from tests.integration.knowledge.sources.source_runs import Sources
from tests.integration.knowledge.sources.web_site import WebSite, serve_site


@pytest.fixture
async def site() -> AsyncIterator[WebSite]:
    async with serve_site(WebSite(pages=20)) as served:
        yield served


@pytest.fixture
async def small_site() -> AsyncIterator[SmallSite]:
    async with serve_small_site(SmallSite()) as served:
        yield served


@pytest.fixture
async def http() -> AsyncIterator[GuardedHttp]:
    http = GuardedHttp(allow_private=True)
    yield http
    await http.close()


@pytest.fixture(scope="session")
def parser() -> Iterator[ItemParser]:
    """One process for all tests: it starts in half a second, and is replaced when a test kills it."""
    with ItemParser() as parser:
        yield parser


@pytest.fixture(scope="session")
async def sources_database(mongo_client: AsyncMongoClient[dict[str, Any]]) -> AsyncIterator[Database]:
    database = mongo_client[f"test_sources_{uuid4().hex[:16]}"]
    await create_indexes(database, COLLECTIONS)
    yield database
    begin_drop(mongo_client, database.name)


@pytest.fixture
async def sources(sources_database: Database, http: GuardedHttp, parser: ItemParser) -> AsyncIterator[Sources]:
    yield Sources(sources_database, http, parser)
    # What is left open here would become the work of the next test.
    await delete_everything(sources_database)
