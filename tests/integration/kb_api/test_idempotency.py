"""A POST with an `Idempotency-Key` takes effect once, whatever happens to its answer."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from pathlib import Path
from typing import Any

import httpx
import pytest

from kb_api.bootstrap import KbApi
from kb_local.ports import NO_TLS, free_port
from kb_local.python_server import ModelServerProcess, SearchNodeProcess
from kb_local.service import Service
from kb_local.zygote import Zygote
from kb_shared import failpoints
from kb_shared.concurrency.concurrent_tasks import run_all
from kb_shared.mongo import api_keys, idempotency_keys, knowledge_bases, reconcile_plans
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.database import Database
from tests.integration.kb_api.conftest import make_key
from tests.integration.kb_api.organization import OrganizationClient
from tests.integration.kb_api.test_documents import BODY, accepted
from tests.integration.kb_api.test_events import ProcessDied

NewOrganization = Callable[..., Awaitable[OrganizationClient]]
NEW_KB = {"name": "n"}


async def post(
    organization: OrganizationClient, path: str = "/knowledge-bases", *, body: Any = None, key: str = "k", **others: Any
) -> httpx.Response:
    headers = {"Authorization": f"Bearer {others.get('api_key', organization.key)}", "Idempotency-Key": key}
    return await organization.http.post(organization.base + path, headers=headers, json=body or NEW_KB)


async def in_another_context(request: Coroutine[Any, Any, httpx.Response]) -> httpx.Response:
    """Send a request while another one is carried out in this process, whose recorders are not its own."""
    return await asyncio.create_task(request, context=Context())


async def kbs_of(organization: OrganizationClient) -> int:
    query = {"organization_id": organization.organization_id}
    return await organization.database[knowledge_bases.NAME].count_documents(query)


async def test_a_repeated_creation_gets_the_answer_of_the_first_one(organization: OrganizationClient) -> None:
    first, second = await post(organization), await post(organization)
    assert (first.status_code, second.status_code) == (201, 201)
    assert (second.json(), second.headers["location"]) == (first.json(), first.headers["location"])
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    assert await kbs_of(organization) == 1
    assert (await post(organization, key="another")).json()["kb_id"] != first.json()["kb_id"]


async def test_a_key_is_of_one_request_and_of_one_organization(
    organization: OrganizationClient, new_organization: NewOrganization
) -> None:
    assert (await post(organization)).status_code == 201
    another_key = await make_key(organization.api, organization.organization_id)
    for differing in (
        await post(organization, body={"name": "m"}),
        await post(organization, "/tags", body={"tag_id": "t", "name": "n"}),
        await post(organization, api_key=another_key),
    ):
        assert (differing.status_code, differing.json()["type"]) == (422, "idempotency-key-reused")
    other = await new_organization()
    assert (await post(other)).status_code == 201
    assert await kbs_of(other) == await kbs_of(organization) == 1


async def test_a_key_whose_request_was_refused_can_be_used_again(organization: OrganizationClient) -> None:
    refused = await post(organization, body={"name": "n", "tag_ids": ["unknown"]})
    assert refused.json()["type"] == "unknown-tag"
    assert (await post(organization)).status_code == 201


async def test_of_concurrent_requests_with_one_key_one_takes_effect(organization: OrganizationClient) -> None:
    answers = await run_all(post(organization) for _ in range(8))
    created = [answer.json()["kb_id"] for answer in answers if answer.status_code == 201]
    others = [answer for answer in answers if answer.status_code != 201]
    assert len(set(created)) == 1
    assert {(answer.status_code, answer.json()["type"]) for answer in others} <= {(409, "idempotency-key-in-use")}
    assert all("retry-after" in answer.headers for answer in others)
    assert await kbs_of(organization) == 1


async def test_the_secret_of_an_api_key_is_not_stored_for_a_repeated_request(organization: OrganizationClient) -> None:
    body = {"name": "n", "scopes": ["read"]}
    created = (await post(organization, "/api-keys", body=body)).json()
    repeated = await post(organization, "/api-keys", body=body)
    assert (repeated.status_code, repeated.json()["type"]) == (409, "secret-shown-once")
    assert repeated.json()["key_id"] == created["key_id"]
    mine = {"organization_id": organization.organization_id}
    [row] = await organization.database[idempotency_keys.NAME].find(mine).to_list()
    # The secret itself may contain underscores.
    _, _, secret = created["api_key"].split("_", 2)
    assert secret not in str(row)
    assert await organization.database[api_keys.NAME].count_documents(mine) == 2


@pytest.mark.parametrize("given", ["", "with space", "x" * 256, "é"])
async def test_a_key_that_is_no_key_is_refused(organization: OrganizationClient, given: str) -> None:
    headers = {b"Authorization": f"Bearer {organization.key}".encode(), b"Idempotency-Key": given.encode("latin-1")}
    answer = await organization.http.post(f"{organization.base}/knowledge-bases", headers=headers, json=NEW_KB)
    assert (answer.status_code, answer.json()["type"]) == (422, "validation-error")
    assert await kbs_of(organization) == 0


async def test_a_request_whose_key_was_taken_over_has_no_effect(organization: OrganizationClient, api: KbApi) -> None:
    taken_over: list[httpx.Response] = []
    differing: list[httpx.Response] = []

    async def lose_the_lease() -> None:
        if not taken_over:
            await api.database[idempotency_keys.NAME].update_one(
                {"organization_id": organization.organization_id}, [{"$set": {"until": {"$subtract": ["$$NOW", 1]}}}]
            )
            differing.append(await in_another_context(post(organization, body={"name": "m"})))
            # Appended before it is sent: this failpoint is also reached by the other request.
            taken_over.append(httpx.Response(0))
            taken_over[0] = await in_another_context(post(organization))

    async with failpoints.during("idempotency.after_claim", lose_the_lease):
        late = await post(organization)
    assert taken_over[0].status_code == 201
    assert (late.status_code, late.json()["type"]) == (409, "idempotency-key-in-use")
    assert (differing[0].status_code, differing[0].json()["type"]) == (422, "idempotency-key-reused")
    assert await kbs_of(organization) == 1
    # The entry of the change that was undone is undone with it.
    recorded = (await organization.ok("GET", "/audit"))["entries"]
    assert sorted(entry["status"] for entry in recorded) == [201, 409, 422]


async def test_a_repeated_job_is_the_first_one(organization: OrganizationClient) -> None:
    kb_id = (await organization.create())["kb_id"]
    plans = [(await post(organization, f"/knowledge-bases/{kb_id}/reconcile", key="plan")).json() for _ in range(2)]
    assert plans[0] == plans[1]
    another = (await organization.create())["kb_id"]
    differing = await post(organization, f"/knowledge-bases/{another}/reconcile", key="plan")
    assert (differing.status_code, differing.json()["type"]) == (422, "idempotency-key-reused")
    assert await organization.database[reconcile_plans.NAME].count_documents({"kb_id": kb_id}) == 1


async def lapse(organization: OrganizationClient) -> None:
    """Let the time pass until the lease of a key has ended."""
    await organization.database[idempotency_keys.NAME].update_many(
        {"organization_id": organization.organization_id}, [{"$set": {"until": {"$subtract": ["$$NOW", 1]}}}]
    )


def batch_of_documents() -> dict[str, Any]:
    refused = {"action": "delete", "document_id": "unknown"}
    return {"documents": [refused, *({**BODY, "document_id": f"d{n}"} for n in range(4))]}


async def published(organization: OrganizationClient) -> dict[str, list[int]]:
    """Return the revisions of the events that were published, by document."""
    found: dict[str, list[int]] = {}
    for event, _ in await accepted(organization):
        found.setdefault(event.document_id, []).append(event.revision)
    return found


async def test_a_batch_whose_key_was_taken_over_stops_and_publishes_nothing_twice(
    organization: OrganizationClient,
) -> None:
    batch, taken_over, reached = batch_of_documents(), [], 0

    async def take_over() -> None:
        await lapse(organization)
        # Another caller changes a document that the first request has changed.
        await organization.ok("PATCH", "/documents/d0/tags", json={"tag_ids": ["other"]})
        taken_over.append(await post(organization, "/documents:batch", body=batch))

    async def lose_the_lease() -> None:
        nonlocal reached
        reached += 1
        if reached == 2:
            # As in another process: its changes are not recorded by the first request.
            await asyncio.create_task(take_over(), context=Context())

    async with failpoints.during("batch.after_entry", lose_the_lease):
        late = await post(organization, "/documents:batch", body=batch)
    assert (late.status_code, late.json()["type"]) == (409, "idempotency-key-in-use")
    assert await published(organization) == {"d0": [1, 2], "d1": [1], "d2": [1], "d3": [1]}
    [answer] = taken_over
    assert answer.status_code == 200
    assert [outcome["revision"] for outcome in answer.json()["outcomes"]] == [None, 1, 1, 1, 1]
    again = await post(organization, "/documents:batch", body=batch)
    assert (again.json(), again.headers["idempotency-replayed"]) == (answer.json(), "true")


@pytest.mark.parametrize("error", [ProcessDied, RuntimeError])
async def test_a_batch_that_was_interrupted_is_continued_by_the_request_that_repeats_it(
    organization: OrganizationClient, error: type[BaseException]
) -> None:
    batch, reached = batch_of_documents(), 0

    async def fail_at_the_third() -> None:
        nonlocal reached
        reached += 1
        if reached == 3:
            raise error

    async with failpoints.during("batch.after_entry", fail_at_the_third):
        with suppress(ProcessDied):
            assert (await post(organization, "/documents:batch", body=batch)).status_code == 500
    assert sorted(await published(organization)) == ["d0", "d1", "d2"]
    assert (await post(organization, "/documents:batch", body=batch)).status_code == 409
    await lapse(organization)
    answer = await post(organization, "/documents:batch", body=batch)
    assert (answer.json()["accepted_count"], answer.json()["refused_count"]) == (4, 1)
    assert await published(organization) == {f"d{n}": [1] for n in range(4)}


ORGANIZATION = "acme"
KEY = "kb_bootstrap_" + "x" * 32


async def test_a_process_killed_between_effect_and_answer_creates_nothing_twice(
    zygote: Zygote,
    search_node: SearchNodeProcess,
    model_server: ModelServerProcess,
    search_database: Database,
    tmp_path: Path,
) -> None:
    env = {
        "KB_MONGO_URI": search_node.uri,
        "KB_MONGO_DATABASE": search_database.name,
        "KB_KAFKA": f"127.0.0.1:{free_port()}",
        "KB_LOCAL_MODELS_API_BASE": model_server.api_base,
        "KB_EMBEDDING_MODEL": "hash-8",
        "KB_BOOTSTRAP_ADMIN_KEY": KEY,
        "KB_BOOTSTRAP_ORGANIZATION": ORGANIZATION,
    }
    service = Service("kb-api", package="kb_api", zygote=zygote, port=free_port(), log=tmp_path / "log", env=env)
    bodies = {"/knowledge-bases": NEW_KB, "/api-keys": {"name": "n", "scopes": [Scope.READ]}}

    async def send(client: httpx.AsyncClient, path: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {KEY}", "Idempotency-Key": path}
        return await client.post(f"{service.url}/v0/orgs/{ORGANIZATION}{path}", headers=headers, json=bodies[path])

    async with httpx.AsyncClient(trust_env=False, verify=NO_TLS, timeout=60) as client:
        for path in bodies:
            service.env["KB_FAILPOINT"] = "idempotency.after_effect"
            await service.start()
            with pytest.raises(httpx.TransportError):
                await send(client, path)
            await service.kill()
        del service.env["KB_FAILPOINT"]
        await service.start()
        try:
            created, refused = [await send(client, path) for path in bodies]
        finally:
            await service.kill()
    assert created.status_code == 201, created.text
    [kb] = await search_database[knowledge_bases.NAME].find({}).to_list()
    assert created.json()["kb_id"] == kb["_id"]
    assert (refused.status_code, refused.json()["type"]) == (409, "secret-shown-once")
    assert await search_database[api_keys.NAME].count_documents({"name": "n"}) == 1
