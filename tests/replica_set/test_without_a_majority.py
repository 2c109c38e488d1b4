"""While there is no majority, callers get 503 in time, and nothing is acknowledged."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest

from kb_api.bootstrap import KbApi, create_app, create_kb_api
from kb_api.settings import ApiSettings
from kb_local.python_server import ModelServerProcess
from kb_local.replica_set import ReplicaSet
from kb_local.search_nodes import SearchNodes
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.mongo import database as mongo
from kb_shared.settings import CommonSettings
from tests.indexes import create_all_indexes
from tests.integration.kb_api.conftest import make_key
from tests.integration.kb_api.organization import OrganizationClient
from tests.waiting import until

WITHIN_S: Final = 15.0
FROZEN_FOR_S: Final = 25.0
"""Longer than the primary takes to find out that it is alone, and steps down."""
PAUSE_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    request: str
    status: int
    after_s: float


@pytest.fixture
async def api(nodes: SearchNodes, database_name: str, model_server: ModelServerProcess) -> AsyncIterator[KbApi]:
    database = mongo.connect(CommonSettings(mongo_uri=nodes.uri, mongo_database=database_name))
    await create_all_indexes(database)
    settings = ApiSettings(local_models_api_base=model_server.api_base, embedding_model="hash-16")
    embedder = create_embedder(database, settings, patience_s=0.2)
    yield create_kb_api(settings, database=database, embedder=embedder)
    await embedder.close()
    await database.client.close()


@pytest.fixture
async def organization(api: KbApi) -> AsyncIterator[OrganizationClient]:
    organization_id = f"org-{uuid4().hex[:12]}"
    key = await make_key(api, organization_id)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(create_app(api)), base_url="http://kb-api") as http:
        yield OrganizationClient(organization_id, key, http, api)


@pytest.mark.timeout(240)
async def test_callers_get_503_in_time_while_both_secondaries_are_frozen(
    replica_set: ReplicaSet, organization: OrganizationClient
) -> None:
    await organization.ok("POST", "/tags", json={"tag_id": "t", "name": "n"})
    kb = await organization.ok("POST", "/knowledge-bases", json={"name": "kb", "tag_ids": ["t"]})
    document = {"document_name": "d", "upload_date": "2026-01-31T00:00:00Z", "tag_ids": ["t"], "text": "text"}
    other_model = {"name": "other", "tag_ids": ["t"], "embedding_model": "hash-24"}
    changes: list[tuple[str, str, Any]] = [
        ("POST", "/tags", {"tag_id": "t", "name": "again"}),
        ("POST", "/knowledge-bases", {"name": "another", "tag_ids": ["t"]}),
        ("POST", "/knowledge-bases", other_model),
        ("PUT", f"/knowledge-bases/{kb['kb_id']}", {"name": "renamed"}),
        ("PUT", f"/knowledge-bases/{kb['kb_id']}", {"name": "kb"}),
        ("POST", f"/knowledge-bases/{kb['kb_id']}/pause", None),
        ("POST", "/api-keys", {"name": "reader", "scopes": ["read"]}),
        ("PUT", "/documents/d", document),
    ]
    frozen = await replica_set.secondaries()
    await asyncio.gather(*(member.pause() for member in frozen))
    end = monotonic() + FROZEN_FOR_S
    answers = await asyncio.gather(*(repeat(organization, *change, end=end) for change in changes))
    for member in frozen:
        member.resume()
    late = [answer for row in answers for answer in row if answer.after_s > WITHIN_S]
    assert not late
    statuses = Counter(answer.status for row in answers for answer in row)
    assert statuses.keys() == {503}, [answer for row in answers for answer in row if answer.status != 503]

    async def accepts_writes() -> bool:
        response = await organization.request("POST", "/tags", json={"tag_id": "t", "name": "n"})
        return response.is_success

    await until(accepts_writes, what="changes are taken again")


async def repeat(
    organization: OrganizationClient, method: str, path: str, body: Any, *, end: float
) -> list[RecordedAnswer]:
    answers = []
    while monotonic() < end:
        began = monotonic()
        response = await organization.request(method, path, json=body)
        answers.append(RecordedAnswer(f"{method} {path}", response.status_code, monotonic() - began))
        await asyncio.sleep(PAUSE_S)
    return answers
