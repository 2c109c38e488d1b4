from collections.abc import AsyncIterator

import pytest

from kb_knowledge.indexes import COLLECTIONS
from kb_knowledge.sources.guarded_http import GuardedHttp
from kb_shared.mongo.database import Database
from kb_shared.mongo.schema import create_indexes
from tests.integration.knowledge.sources.source_runs import Sources
from tests.integration.knowledge.sources.web_site import WebSite, serve_site


@pytest.fixture
async def site() -> AsyncIterator[WebSite]:
    async with serve_site(WebSite(pages=20)) as served:
        yield served


@pytest.fixture
async def http() -> AsyncIterator[GuardedHttp]:
    http = GuardedHttp(allow_private=True)
    yield http
    await http.close()


@pytest.fixture
async def sources(database: Database, http: GuardedHttp) -> Sources:
    await create_indexes(database, COLLECTIONS)
    return Sources(database, http)
