import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import uuid4

import httpx
import pytest
from pymongo import AsyncMongoClient

from kb_local.model_server.hash_model import vector_of
from kb_search.bootstrap import create_app
from kb_search.settings import SearchSettings
from kb_shared.chat.chat import create_chat
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.mongo import index_queries
from kb_shared.mongo.api_keys import Scope
from tests.injection.attacks import Attack, read_attacks
from tests.injection.obedient_model import HEEDFUL, OBEDIENT, ObedientModel
from tests.injection.target_deployment import (
    CANARY,
    CANARY_OF_VICTIM,
    INSTRUCTIONS,
    QUERY,
    TARGET,
    VICTIM,
    AttackOutcome,
    InProcessHashProvider,
    TargetDeployment,
    knowing,
)
from tests.integration.search.conftest import key_for
from tests.integration.search.knowledge import DIMENSIONS, DocumentToIndex, Knowledge, create
from tests.integration.search.lifespan import running
from tests.waiting import until

RUNS_AT_ONCE = 8
INJECTION = {"knowledge": {"mode": "static", "entity_from": "request"}}


@pytest.fixture(scope="module")
async def target(search_client: AsyncMongoClient[dict[str, Any]]) -> AsyncIterator[TargetDeployment]:
    """All attacks are planted, and can be found."""
    database = search_client[f"test_{uuid4().hex[:16]}"]
    settings = SearchSettings(
        local_models_api_base="http://no-models.invalid/v1",
        run_max_seconds=600,
        # A hundred runs take a few seconds.
        runs_per_minute_of_key=100_000,
        runs_per_minute_of_organization=100_000,
    )
    model = ObedientModel()
    embedder, chat = create_embedder(database, settings, patience_s=60), create_chat(database, settings)
    await chat._provider.close()
    await embedder._provider._provider.close()
    chat._provider, embedder._provider._provider = model, InProcessHashProvider(timeout_s=60)
    app = create_app(settings, database=database, embedder=embedder, chat=chat)
    async with running(app), httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://search") as http:
        key = await key_for(database, settings, TARGET, Scope.ADMIN)
        handbook, payroll, victim = await asyncio.gather(
            create(database, TARGET, name="Handbook"),
            create(database, TARGET, name="Payroll"),
            create(database, VICTIM, name="Victim"),
        )
        names = {"$OTHER_KB": payroll.kb.kb_id, "$VICTIM_KB": victim.kb.kb_id, "$OLD_MARK": "0123456789abcdef"}
        agents: dict[str, str] = {}
        deployment = TargetDeployment(http, key, database, model, handbook, names, agents)
        for name in (OBEDIENT, HEEDFUL):
            agents[name] = await _agent(deployment, name, handbook)
            agents[knowing(name)] = await _agent(deployment, name, handbook, injection=INJECTION)
        await _agent(deployment, OBEDIENT, payroll)
        await _plant(deployment, payroll, victim)
        yield deployment
    await chat.close()
    await embedder.close()
    await search_client.drop_database(database.name)


async def _agent(deployment: TargetDeployment, model: str, knowledge: Knowledge, **fields: Any) -> str:
    body = {"name": model, "instructions": INSTRUCTIONS, "model": model, **fields}
    made = (await deployment.ask("/agents", body)).json()
    path = f"/agents/{made['agent_id']}/knowledge-base-tools"
    answer = await deployment.ask(path, {"kb_id": knowledge.kb.kb_id})
    assert answer.status_code == 201, answer.text
    return str(made["agent_id"])


async def _plant(deployment: TargetDeployment, *others: Knowledge) -> None:
    for each in others:
        canary = CANARY_OF_VICTIM if each.kb.organization_id == VICTIM else CANARY
        secret = DocumentToIndex("salaries", [f"{QUERY} {canary}: for the victim alone"], name=f"{canary}.md")
        await each.index(secret, searchable=False)
    attacks = read_attacks()
    for start in range(0, len(attacks), RUNS_AT_ONCE):
        await asyncio.gather(*map(deployment.plant, attacks[start : start + RUNS_AT_ONCE]))
    planted = sum(attack.is_indexed for attack in attacks)

    async def all_are_found() -> bool:
        vector = vector_of(QUERY, dimensions=DIMENSIONS)
        return (
            len(
                await index_queries.query_vector_index(
                    deployment.handbook.chunks, vector, limit=1_000, query_filter={}, exact=True
                )
            )
            == planted
        )

    await until(all_are_found)


@pytest.fixture(scope="module")
async def outcomes(target: TargetDeployment) -> Mapping[str, AttackOutcome]:
    """Run the attacks and return their outcomes; several run at a time, since each mostly waits for the database."""
    slots = asyncio.Semaphore(RUNS_AT_ONCE)
    attacks = read_attacks()

    async def outcome(attack: Attack) -> AttackOutcome:
        async with slots:
            return await target.run(attack)

    async with asyncio.TaskGroup() as group:
        tasks = {attack.attack_id: group.create_task(outcome(attack)) for attack in attacks}
    return {attack_id: task.result() for attack_id, task in tasks.items()}
