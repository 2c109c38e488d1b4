"""All HTTP services on one database with two organizations: the prober, and the victim whose data holds a canary."""

import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from pymongo import AsyncMongoClient

from kb_api import bootstrap as kb_api
from kb_api.outcome_events.list_events import EventLister
from kb_api.settings import ApiSettings
from kb_api.webhooks import deliveries, webhook_rows
from kb_api.webhooks.webhook_rows import Webhook, WebhookKey
from kb_api.webhooks.webhook_secrets import WebhookSecrets
from kb_contracts.commands import Reason, SyncDocument
from kb_contracts.knowledge.entities import Entity
from kb_contracts.knowledge.graph import GraphEdge, GraphNode
from kb_knowledge import bootstrap as kb_knowledge
from kb_knowledge.settings import KnowledgeSettings
from kb_knowledge.store import check_ins, knowledge_sources, mcp_servers, source_runs
from kb_knowledge.store.check_ins import CheckIn
from kb_knowledge.store.knowledge_sources import KnowledgeSource, SourceKind
from kb_knowledge.store.mcp_servers import McpServer
from kb_knowledge.store.source_runs import RunTrigger
from kb_local.python_server import ModelServerProcess
from kb_search import bootstrap as kb_search
from kb_search.settings import SearchSettings
from kb_search.store import prompts, runs
from kb_search.store.prompts import Prompt
from kb_search.store.runs import Run, RunStatus, Thread
from kb_shared.chat.chat import create_chat
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.errors import MessageRefused
from kb_shared.identifiers import new_id
from kb_shared.kafka.record import Record
from kb_shared.messaging.dead_letters import DeadLetterPublisher
from kb_shared.messaging.unsendable_messages import mark_unsendable
from kb_shared.mongo import (
    agents,
    api_keys,
    backfills,
    dead_letters,
    entities,
    index_jobs,
    knowledge_entries,
    knowledge_graph,
    llm_providers,
    outbox,
    reconcile_passes,
    reconcile_plans,
    tags,
    vectors,
)
from kb_shared.mongo.agents import Agent, KnowledgeBaseTool
from kb_shared.mongo.api_keys import ApiKey, Scope
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.dead_letters import LetterFilter
from kb_shared.mongo.index_jobs import SyncRequest
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_entries import KnowledgeEntry
from kb_shared.mongo.llm_providers import LlmProvider
from kb_shared.mongo.reconcile_passes import ReconcilePass
from kb_shared.mongo.reconcile_plans import PlannedRepair, PlanScope
from kb_shared.mongo.tags import Tag
from kb_shared.secrets.key_ring import KeyRing
from tests.indexes import create_all_indexes
from tests.integration.indexer.support import RecordingProducer
from tests.integration.runs.projection import hear_of_text
from tests.integration.search import knowledge
from tests.integration.search.knowledge import DocumentToIndex, Knowledge

PROBER = "prober"
VICTIM = "victim"
CANARY = "canary7f3a"
"""Secret in each text of the victim; the prober never sends it."""
DOCUMENT_ID = "document-1"
TAG_ID = "tag-1"
PROVIDER = "openai"
ONLY_THE_VICTIMS_TAG = "tag-2"
THEIR_ENTITY = "user:theirs"
"""The victim's entity and its node."""


@dataclass(frozen=True)
class TwoTenants:
    """All HTTP services, with an organization that tries everything and one that it must learn nothing of."""

    database: Database
    pepper: str
    apps: dict[str, FastAPI]
    clients: dict[str, httpx.AsyncClient]
    prober: Knowledge
    victim: Knowledge
    victim_key: str
    victim_job: str
    victim_letter: str
    victim_plan: str
    victim_message: str
    victims_writings: dict[str, str]
    """Ids of its prompt, agent, tool, run, thread and passage."""

    async def key(
        self, organization_id: str, *scopes: Scope, name: str = "key", kb_ids: tuple[str, ...] | None = None
    ) -> str:
        key_id, whole_key = api_keys.create_secret_key()
        key = ApiKey(key_id, organization_id, name, frozenset(scopes), datetime.now(UTC), None, None)
        if kb_ids is not None:
            key = replace(key, scopes=frozenset(), scopes_in_kbs=frozenset(scopes), kb_ids=kb_ids)
        assert await api_keys.insert(self.database, key, whole_key=whole_key, pepper=self.pepper)
        return whole_key


@pytest.fixture(scope="session")
async def tenants(
    search_client: AsyncMongoClient[dict[str, Any]], model_server: ModelServerProcess
) -> AsyncIterator[TwoTenants]:
    database = search_client[f"test_{uuid4().hex[:16]}"]
    await create_all_indexes(database)
    api_settings = ApiSettings(
        local_models_api_base=model_server.api_base,
        embedding_model=knowledge.MODEL,
        provider_keys=SecretStr(f"1:{base64.b64encode(bytes(32)).decode()}"),
    )
    search_settings = SearchSettings(local_models_api_base=model_server.api_base)
    embedder = create_embedder(database, api_settings, patience_s=0.2)
    chat = create_chat(database, search_settings)
    api = kb_api.create_kb_api(api_settings, database=database, embedder=embedder)
    apps = {
        "kb-api": kb_api.create_app(api),
        "search": kb_search.create_app(search_settings, database=database, embedder=embedder, chat=chat),
        "knowledge": kb_knowledge.create_app(KnowledgeSettings(), database=database, chat=chat),
    }
    clients = {
        name: httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{name}")
        for name, app in apps.items()
    }
    victim = await knowledge.create(database, VICTIM, name=f"KB {CANARY}", tag_ids=(TAG_ID,))
    document = DocumentToIndex(DOCUMENT_ID, [f"The {CANARY} text"], name=f"{CANARY}.pdf", tag_ids=(TAG_ID,))
    await victim.index(document)
    await hear_of_text(database, VICTIM, DOCUMENT_ID, f"The {CANARY} text", name=document.name)
    for tag_id in (TAG_ID, ONLY_THE_VICTIMS_TAG):
        await tags.put(database, VICTIM, Tag(tag_id, CANARY))
    await _open_job(database, victim)
    await llm_providers.put(database, _provider_of_victim())
    tenants = TwoTenants(
        database=database,
        pepper=api_settings.api_key_pepper.get_secret_value(),
        apps=apps,
        clients=clients,
        prober=await knowledge.create(database, PROBER),
        victim=victim,
        victim_key="",
        victim_job=await _start_job(database, victim),
        victim_letter=await _file_letter(database),
        victim_plan=await _stop_pass(database, victim),
        victim_message=await _set_aside_message(database),
        victims_writings=await _write(database, victim)
        | {"chunk_id": next(iter(vectors.chunk_ids(DOCUMENT_ID, document.chunks())))},
    )
    webhook = await _add_webhook(database)
    # The rejection of its dead letter, which is queued for its webhook.
    await EventLister(database).list_once()
    [delivery, *_] = await deliveries.find_page(database, webhook, state=None, before=None, limit=1)
    tenants.victims_writings.update(webhook_id=webhook.webhook_id, delivery_id=delivery.delivery_id)
    victim_key = await tenants.key(VICTIM, Scope.ADMIN, name=CANARY)
    tenants = replace(tenants, victim_key=victim_key)
    try:
        yield tenants
        await _assert_that_metrics_do_not_name_the_victim(tenants)
        await _assert_that_the_victim_is_as_it_was(tenants)
    finally:
        for client in clients.values():
            await client.aclose()
        await api.text_worker.close()
        await chat.close()
        await embedder.close()
        await search_client.drop_database(database.name)


async def _assert_that_metrics_do_not_name_the_victim(tenants: TwoTenants) -> None:
    # Once, because what a request adds to them stays, and they take more time than the requests of a route.
    for client in tenants.clients.values():
        metrics = await client.get("/metrics")
        assert metrics.status_code == 200
        assert CANARY not in metrics.text


async def _assert_that_the_victim_is_as_it_was(tenants: TwoTenants) -> None:
    headers = {"Authorization": f"Bearer {tenants.victim_key}"}
    base = f"/v0/orgs/{VICTIM}"
    path = f"{base}/knowledge-bases/{tenants.victim.kb.kb_id}"
    kb = (await tenants.clients["kb-api"].get(path, headers=headers)).json()
    # One of its jobs is never done.
    assert (kb["name"], kb["document_count"], kb["status"]) == (f"KB {CANARY}", 1, "indexing")
    tags = (await tenants.clients["kb-api"].get(f"{base}/tags", headers=headers)).json()
    assert [(tag["tag_id"], tag["name"]) for tag in tags["tags"]] == [
        (tag_id, CANARY) for tag_id in (TAG_ID, ONLY_THE_VICTIMS_TAG)
    ]
    provider = (await tenants.clients["kb-api"].get(f"{base}/llm-providers/{PROVIDER}", headers=headers)).json()
    assert provider["api_base"] == f"https://{CANARY}.example"
    for kind in ("prompt", "agent"):
        written = await tenants.clients["search"].get(
            f"{base}/{kind}s/{tenants.victims_writings[f'{kind}_id']}", headers=headers
        )
        assert written.json()["name"] == CANARY
    reached = await tenants.clients["knowledge"].get(
        f"{base}/graph/neighbourhood", params={"entity_id": THEIR_ENTITY}, headers=headers
    )
    assert (len(reached.json()["edges"]), reached.json()["nodes"][0]["label"]) == (1, CANARY)
    entry_path = f"{base}/knowledge-entries/{tenants.victims_writings['entry_id']}"
    entry = (await tenants.clients["knowledge"].get(entry_path, headers=headers)).json()
    assert (entry["title"], entry["embedding_status"]) == (CANARY, "error")
    source_path = f"{base}/knowledge-sources/{tenants.victims_writings['source_id']}"
    run_path = f"{source_path}/runs/{tenants.victims_writings['source_run_id']}"
    server_path = f"{base}/mcp-servers/{tenants.victims_writings['mcp_server_id']}"
    for path_of_writing, name, value in [
        (source_path, "label", CANARY),
        (run_path, "status", "waiting"),
        (server_path, "label", CANARY),
    ]:
        answer = await tenants.clients["knowledge"].get(path_of_writing, headers=headers)
        assert answer.json()[name] == value
    thread = await tenants.clients["search"].get(
        f"{base}/threads/{tenants.victims_writings['thread_id']}", headers=headers
    )
    assert [run["answer"] for run in thread.json()["runs"]] == [CANARY]
    found = await tenants.clients["search"].post(f"{path}/search", json={"query": CANARY}, headers=headers)
    assert [hit["document_id"] for hit in found.json()["results"]] == [DOCUMENT_ID]


async def _open_job(database: Database, victim: Knowledge) -> None:
    command = SyncDocument(
        organization_id=VICTIM, kb_id=victim.kb.kb_id, document_id=f"{CANARY}-open", reason=Reason.OCR
    )
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await index_jobs.request(database, [SyncRequest([command], trace, datetime.now(UTC))])


async def _start_job(database: Database, victim: Knowledge) -> str:
    async def start(session: MongoSession) -> str:
        kind = backfills.Kind.RETRY_FAILED
        kb_id = victim.kb.kb_id
        return (
            await backfills.start(database, session, KnowledgeBaseKey(VICTIM, kb_id), kind=kind, traceparent="")
        ).job_id

    return await in_transaction(database, start)


async def _stop_pass(database: Database, victim: Knowledge) -> str:
    """Store what a pass of the reconciler left for a person of the victim, and what it counted."""
    plan = await reconcile_plans.create_stopped(
        database,
        PlanScope(VICTIM, victim.kb.kb_id),
        found={"stale": 1},
        repairs=[PlannedRepair(victim.kb.kb_id, "stale", CANARY)],
    )
    await reconcile_passes.add(
        database,
        [
            ReconcilePass(
                organization_id=VICTIM,
                kind="full",
                started_at=plan.created_at,
                finished_at=plan.created_at,
                knowledge_bases=1,
                found={CANARY: 1},
            )
        ],
    )
    return plan.plan_id


async def _file_letter(database: Database) -> str:
    """File a dead letter of the victim and one without an owner; return the id of the victim's."""
    publisher = DeadLetterPublisher(database, RecordingProducer(), topic_prefix="")
    for key in (None, f"{VICTIM}/{CANARY}".encode()):
        value = f"not JSON, but a {CANARY}".encode()
        await publisher.publish(Record("document-events", 0, 7, key, value, (), 0), reason="bad-data", detail=CANARY)
    letters, _ = await dead_letters.find_page(database, [VICTIM], LetterFilter(), skip=0, limit=10)
    return letters[0].letter_id


async def _set_aside_message(database: Database) -> str:
    """Mark a message of the victim and one without an owner as unsendable; return the id of the victim's."""
    for key in (b"\xff", f"{VICTIM}/{CANARY}".encode()):

        async def add(session: MongoSession, key: bytes = key) -> None:
            received = outbox.ReceivedRecord("document-events", key, CANARY.encode(), [(CANARY, b"")], "")
            await outbox.add_records(database, session, [received], ordering=CANARY)

        await in_transaction(database, add)
    waiting = await outbox.find_unsent(database, range(outbox.BUCKETS), limit=10)
    for message in (each for each in waiting if each.topic == "document-events"):
        refusal = MessageRefused(f"a {CANARY}", reason="too-large")
        await mark_unsendable(database, message, refusal=refusal, size_bytes=1)
    messages, _ = await outbox.find_unsendable_page(database, [VICTIM], topic=None, reason=None, skip=0, limit=10)
    return messages[0].message_id


async def _write(database: Database, victim: Knowledge) -> dict[str, str]:
    ids = {name: new_id() for name in ("prompt_id", "agent_id", "tool_id", "run_id", "thread_id")}
    by: dict[str, Any] = {"created_at": datetime.now(UTC), "created_by": "key"}
    changed: dict[str, Any] = {"updated_at": datetime.now(UTC), "updated_by": "key"}
    kb_id = victim.kb.kb_id
    prompt = Prompt(ids["prompt_id"], VICTIM, CANARY, CANARY, "demo-extractive", (kb_id,), None, **by, **changed)
    await prompts.insert(database, prompt)
    tool = KnowledgeBaseTool(ids["tool_id"], kb_id, f"search_{CANARY}", CANARY, 5, 0.7)
    agent = Agent(ids["agent_id"], VICTIM, CANARY, CANARY, "demo-extractive", None, (tool,), 1, **by, **changed)
    await agents.insert(database, agent)
    await runs.insert_thread(database, Thread(ids["thread_id"], VICTIM, CANARY, **by))
    now = datetime.now(UTC)
    asked = [{"role": "user", "content": CANARY}]
    run = Run(ids["run_id"], VICTIM, ids["thread_id"], None, None, "key", "m", RunStatus.COMPLETED, asked, now, now)
    await runs.begin(database, replace(run, answer=CANARY, finished_at=now))
    return {
        **ids,
        "entry_id": await _write_entry(database),
        **await _write_graph(database),
        "check_in_id": await _write_check_in(database),
        **await _add_source(database),
    }


async def _write_check_in(database: Database) -> str:
    check_in = CheckIn(
        check_in_id=new_id(),
        organization_id=VICTIM,
        text=CANARY,
        proposal="{}",
        warnings=[],
        model=CANARY,
        answers=1,
        prompt_tokens=1,
        completion_tokens=1,
        cost_usd=None,
        created_at=datetime.now(UTC),
        created_by="key",
    )
    await in_transaction(database, lambda session: check_ins.insert(database, session, check_in))
    return check_in.check_in_id


async def _write_graph(database: Database) -> dict[str, str]:
    """Store an entity of the victim with its node and an edge."""
    entity = Entity(entity_id=THEIR_ENTITY, entity_type="user", properties={"team": CANARY})
    node = GraphNode(node_id=THEIR_ENTITY, node_type="user", label=CANARY)
    edge = GraphEdge(source_id=THEIR_ENTITY, edge_type="KNOWS", target_id=THEIR_ENTITY, properties={"since": CANARY})
    await entities.put_all(database, VICTIM, [entity], by="key")
    await knowledge_graph.put_nodes(database, VICTIM, [node], by="key")
    await knowledge_graph.put_edges(database, VICTIM, [edge], by="key")
    return {"entity_id": THEIR_ENTITY, "node_id": THEIR_ENTITY, "edge_id": knowledge_graph.edge_id_of(edge)}


async def _add_source(database: Database) -> dict[str, str]:
    """Store a source of the victim that runs, and an MCP server."""
    now = datetime.now(UTC)
    by = {"created_at": now, "created_by": "key", "updated_at": now, "updated_by": "key"}
    source_id, mcp_server_id = knowledge_sources.new_source_id(), mcp_servers.new_mcp_server_id()
    config = {"url": f"https://{CANARY}.example/", "depth": 1, "prefixes": None}
    source = KnowledgeSource(source_id, VICTIM, CANARY, SourceKind.URL_CRAWL, config, None, True, **by)  # type: ignore[arg-type]  # by name
    server = McpServer(mcp_server_id, VICTIM, CANARY, f"https://{CANARY}.example/mcp", (CANARY,), None, **by)  # type: ignore[arg-type]  # by name

    async def add(session: MongoSession) -> str:
        await knowledge_sources.insert(database, session, source)
        await mcp_servers.put(database, session, server)
        requested = await source_runs.request(
            database, session, source.key, trigger=RunTrigger.MANUAL, requested_by=CANARY
        )
        return requested.run_id

    source_run_id = await in_transaction(database, add)
    return {"source_id": source_id, "source_run_id": source_run_id, "mcp_server_id": mcp_server_id}


async def _write_entry(database: Database) -> str:
    """Store an entry of the victim whose indexing has failed."""
    now = datetime.now(UTC)
    entry = KnowledgeEntry(
        organization_id=VICTIM,
        entry_id=new_id(),
        title=CANARY,
        content=CANARY,
        tags=(TAG_ID,),
        type="note",
        revision=0,
        content_hash="",
        created_at=now,
        updated_at=now,
        created_by="key",
        updated_by="key",
        embedding_status="error",
    )

    async def insert(session: MongoSession) -> None:
        await knowledge_entries.insert(database, session, entry)

    await in_transaction(database, insert)
    return entry.entry_id


async def _add_webhook(database: Database) -> WebhookKey:
    key, now = WebhookKey(VICTIM, new_id()), datetime.now(UTC)
    _, secret = WebhookSecrets(KeyRing({"1": bytes(32)})).create(key, now=now)
    by = {"created_at": now, "created_by": "key", "updated_at": now, "updated_by": "key"}
    url = f"https://{CANARY}.example"
    webhook = Webhook(key.webhook_id, VICTIM, url, CANARY, None, None, True, (secret,), **by)  # type: ignore[arg-type]  # by name

    async def add(session: MongoSession) -> None:
        await webhook_rows.insert(database, session, webhook)

    await in_transaction(database, add)
    return key


def _provider_of_victim() -> LlmProvider:
    sealed = KeyRing({"1": bytes(32)}).seal(f"sk-{CANARY}", organization_id=VICTIM, provider=PROVIDER)
    return LlmProvider(
        VICTIM, PROVIDER, sealed, CANARY[-4:], f"https://{CANARY}.example", 60, None, datetime.now(UTC), "key"
    )
