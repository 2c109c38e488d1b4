"""Makes an organization with something of every kind: through the API, where the API can make it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx

from kb_client import AsyncClient
from kb_contracts import topics
from kb_contracts.cloudevents import encode
from kb_local.ports import NO_TLS
from kb_shared.mongo import api_keys, outbox, reconcile_passes, reconcile_plans
from kb_shared.mongo.api_keys import ApiKey, Scope
from kb_shared.mongo.database import MongoSession, in_transaction
from kb_shared.mongo.reconcile_passes import ReconcilePass
from kb_shared.mongo.reconcile_plans import PlannedRepair, PlanScope
from tests.chaos.workload import Upstream
from tests.e2e.operations.stocked_organization import (
    BROKEN,
    CHANGING,
    CHANGING_TAG,
    DEMO,
    LEAVE,
    LEAVE_PAGES,
    LEAVE_TEXT,
    LONG,
    LONG_TEXT,
    PROVIDER,
    PROVIDER_KEY,
    QUESTION,
    REFUSED,
    STRICT_TAG,
    TAG,
    TRAVEL,
    TRAVEL_TEXT,
    UNUSED_TAG,
    UPLOADED_AT,
    StockedOrganization,
)
from tests.e2e.running_system import RunningSystem
from tests.e2e.system import CHUNK_SIZE, MODEL


@asynccontextmanager
async def client_of_new_organization(
    running: RunningSystem, *, http: httpx.AsyncClient
) -> AsyncIterator[tuple[AsyncClient, ApiKey]]:
    """Yield a client with the first key of an organization, and this key."""
    key, whole_key = await add_organization(running)
    base_url = running.system.stack.base_url
    async with AsyncClient(base_url, organization=key.organization_id, api_key=whole_key, http=http) as client:
        yield client, key


async def add_organization(running: RunningSystem) -> tuple[ApiKey, str]:
    """Store the first key of a new organization; return it, and the secret that callers send."""
    key_id, whole_key = api_keys.create_secret_key()
    key = ApiKey(
        key_id, f"operations-{uuid4().hex[:8]}", "first", frozenset({Scope.ADMIN}), datetime.now(UTC), None, None
    )
    pepper = running.system.stack.environment["KB_API_KEY_PEPPER"]
    assert await api_keys.insert(running.system.database, key, whole_key=whole_key, pepper=pepper)
    return key, whole_key


@asynccontextmanager
async def http_of_new_organization(running: RunningSystem) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of an organization that the oracle does not watch."""
    key, whole_key = await add_organization(running)
    async with httpx.AsyncClient(
        base_url=f"{running.system.stack.base_url}/v0/orgs/{key.organization_id}",
        headers={"Authorization": f"Bearer {whole_key}"},
        timeout=30,
        trust_env=False,
        verify=NO_TLS,
    ) as http:
        yield http


@asynccontextmanager
async def stocked_organization(running: RunningSystem) -> AsyncIterator[StockedOrganization]:
    async with (
        httpx.AsyncClient(trust_env=False, verify=NO_TLS) as http,
        client_of_new_organization(running, http=http) as (client, key),
    ):
        kb_id, strict_kb_id, changing_kb_id = await _create_knowledge_bases(client)
        await _put_documents(client)
        await _add_dead_letter(running, key.organization_id)
        await _add_unsendable_message(running, key.organization_id)
        plan_id = await _add_stopped_pass(running, key.organization_id, kb_id=kb_id)
        prompt = await client.prompts.create(name="Answer", content="Answer.", model=DEMO, kb_ids=[kb_id])
        agent = await client.agents.create(name="Support", instructions="Search.", model=DEMO)
        await client.agents.add_tool(agent.agent_id, kb_id=kb_id, tool_name="search_staff")
        await client.llm_providers.put(PROVIDER, api_key=PROVIDER_KEY, requests_per_minute=60)
        thread = await client.threads.create(title="Leave")
        for document_id in (LEAVE, TRAVEL):
            await client.documents.get(document_id, wait="searchable", timeout_s=60)
        run = await client.runs.create(
            messages=[{"role": "user", "content": QUESTION}],
            kb_ids=[kb_id],
            model=DEMO,
            thread_id=thread.thread_id,
        )
        organization = StockedOrganization(
            organization_id=key.organization_id,
            key_id=key.key_id,
            http=http,
            client=client,
            running=running,
            kb_id=kb_id,
            strict_kb_id=strict_kb_id,
            changing_kb_id=changing_kb_id,
            prompt_id=prompt.prompt_id,
            agent_id=agent.agent_id,
            thread_id=thread.thread_id,
            run_id=run.run_id,
            plan_id=plan_id,
        )
        await _until_stocked(organization)
        yield organization


async def _create_knowledge_bases(client: AsyncClient) -> list[str]:
    """Create the usual, the strict and the changing KB, and return their ids."""
    for tag_id in (TAG, STRICT_TAG, CHANGING_TAG, UNUSED_TAG):
        await client.tags.put(tag_id, name=tag_id.title())
    small: dict[str, Any] = {"embedding_model": MODEL, "chunk_size": CHUNK_SIZE, "chunk_overlap": 0}
    usual = await client.knowledge_bases.create(name="Handbook", tag_ids=[TAG], filterable_metadata=["year"], **small)
    strict = await client.knowledge_bases.create(
        name="Short texts", tag_ids=[STRICT_TAG], max_chunks_per_document=1, **small
    )
    changing = await client.knowledge_bases.create(name="Changing", tag_ids=[CHANGING_TAG], **small)
    return [kb.kb_id for kb in (usual, strict, changing)]


async def _put_documents(client: AsyncClient) -> None:
    first_page = len(LEAVE_PAGES[0])
    await client.documents.put(
        LEAVE,
        document_name="Leave",
        tag_ids=[TAG],
        upload_date=UPLOADED_AT,
        text=LEAVE_TEXT,
        metadata={"year": 2026, "language": "en"},
        pages=[
            {"page": 1, "start": 0, "end": first_page},
            {"page": 2, "start": first_page, "end": len(LEAVE_TEXT)},
        ],
        content_type="text/markdown",
        source_digest="digest",
    )
    others = ((TRAVEL, TRAVEL_TEXT, TAG), (LONG, LONG_TEXT, STRICT_TAG), (CHANGING, CHANGING, CHANGING_TAG))
    for document_id, text, tag_id in others:
        await client.documents.put(
            document_id, document_name=document_id.title(), tag_ids=[tag_id], upload_date=UPLOADED_AT, text=text
        )


async def _add_dead_letter(running: RunningSystem, organization_id: str) -> None:
    await running.send_malformed(b"not JSON", key=f"{organization_id}/{BROKEN}".encode())


async def _add_unsendable_message(running: RunningSystem, organization_id: str) -> None:
    """Store a document event as one that Kafka has refused. No caller waits for it, so it is redriven whole."""
    database = running.system.database
    event = Upstream(organization_id).ocr(REFUSED, [REFUSED], tags=[])
    key = f"{organization_id}/{REFUSED}".encode()

    async def add(session: MongoSession) -> None:
        received = outbox.ReceivedRecord(
            topics.DOCUMENT_EVENTS.name, key, encode(event, source="/tests/upstream"), [], ""
        )
        await outbox.add_records(database, session, [received], ordering=f"refused/{organization_id}")
        row = await database[outbox.NAME].find_one({"key": key}, session=session)
        assert row is not None
        # In the same transaction, so that no relay sends it.
        await outbox.mark_unsendable(
            database,
            session,
            row["_id"],
            reason="too-large",
            size_bytes=7,
            organization_id=organization_id,
            document_id=REFUSED,
        )

    await in_transaction(database, add)


async def _add_stopped_pass(running: RunningSystem, organization_id: str, *, kb_id: str) -> str:
    """Store what a pass of the reconciler leaves that would remove too much; return the id of its plan."""
    database = running.system.database
    plan = await reconcile_plans.create_stopped(
        database,
        PlanScope(organization_id, kb_id),
        found={"stale": 1},
        repairs=[PlannedRepair(kb_id, "stale", TRAVEL)],
    )
    await reconcile_passes.add(
        database,
        [
            ReconcilePass(
                organization_id=organization_id,
                kind="full",
                started_at=plan.created_at,
                finished_at=plan.created_at,
                knowledge_bases=2,
                found={"stale": 1},
                stopped={"stale": 1},
            )
        ],
    )
    return plan.plan_id


async def _until_stocked(organization: StockedOrganization) -> None:
    await organization.until_row("index_jobs", document_id=LONG, state="failed")
    await organization.until_row("dead_letters", document_id=BROKEN)
    await organization.until_row("query_log", run_id=organization.run_id)
    for kb_id in (organization.kb_id, organization.strict_kb_id, organization.changing_kb_id):
        await organization.until_active(kb_id)
    await organization.until_row("document_index", document_id=CHANGING)
