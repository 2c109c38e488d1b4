"""Data of each earlier version is searched and indexed by this one as it was by its own, at no further cost."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest
from pymongo import AsyncMongoClient

from kb_client.events import EventPublisher
from kb_contracts.documents import OcrCompleted
from kb_local.broker import Broker
from kb_local.ports import NO_TLS
from kb_local.python_server import ModelServerProcess, SearchNodeProcess
from kb_local.stack import Stack
from kb_local.zygote import Zygote
from kb_shared.mongo import schema_version
from kb_shared.mongo.vectors import INDEXES
from tests.conftest import KafkaCluster, RunningMongo
from tests.e2e.kafka_log import KafkaLog
from tests.e2e.system import QUICK, QUICK_ON_KAFKA
from tests.upgrade import stored_dump
from tests.upgrade.contents import (
    CONTRACTS,
    DELETED_DOCUMENT,
    FAILED_DOCUMENT,
    LIMITED,
    MANUALS,
    UPLOADED,
    SystemToFill,
    find_best,
    list_chunks,
    paragraph,
)
from tests.upgrade.dump import DATABASE, DUMPS, read_expected
from tests.waiting import until

BY_TIME: Final = sorted(
    (path.name for path in DUMPS.iterdir()), key=lambda name: str(read_expected(DUMPS / name)["written_at"])
)
NAMES: Final = [
    pytest.param(name, marks=() if name in (BY_TIME[0], BY_TIME[-1]) else pytest.mark.long) for name in BY_TIME
]
"""Names of all dumps; those between the oldest and the newest are for the long form."""
SETTINGS: Final = {
    "KB_JOB_LEASE_S": "30",
    "KB_RECONCILE_INTERVAL_S": "0.5",
    "KB_RECONCILE_GRACE_S": "0",
}
"""Settings of a system in which nothing is killed, and whose reconciler begins its passes soon."""


@dataclass(frozen=True, slots=True)
class UpgradedSystem:
    """System of this version, on the data of a dump."""

    stack: Stack
    system: SystemToFill
    database: stored_dump.Database
    expected: dict[str, Any]
    """Contents of the dump, as the version that it is from has described them."""

    @property
    def kbs(self) -> dict[str, Any]:
        kbs: dict[str, Any] = self.expected["knowledge_bases"]
        return kbs

    async def spus(self) -> int:
        return int((await self.system.call("GET", "/usage"))["total_spus"])

    async def chunk_ids(self, kb_id: str, document_id: str) -> list[str]:
        return [each["chunk_id"] for each in await list_chunks(self.system, kb_id, document_id)]

    async def until_idle(self) -> None:
        """Wait until no document is being indexed."""

        async def no_job_is_open() -> bool:
            return not await self.database["index_jobs"].count_documents({"state": {"$ne": "failed"}})

        await until(no_job_is_open)

    async def reconcile(self) -> dict[str, int]:
        """Have everything compared and repaired; return what was found."""
        plan = await self.system.call("POST", "/reconcile")

        async def it_is_over() -> bool:
            nonlocal plan
            plan = await self.system.call("GET", f"/reconcile/plans/{plan['plan_id']}")
            return plan["state"] in ("done", "failed", "stopped")

        await until(it_is_over)
        assert (plan["state"], plan["skipped"]) == ("done", []), plan
        found: dict[str, int] = plan["found"]
        return found


@dataclass(frozen=True, slots=True)
class RestoredDump:
    """Database with the data of a dump, of which no service has seen anything yet."""

    mongo_uri: str
    database: stored_dump.Database
    expected: dict[str, Any]


@pytest.fixture(scope="module", params=NAMES)
async def restored(
    request: pytest.FixtureRequest, search_node: RunningMongo | SearchNodeProcess
) -> AsyncIterator[RestoredDump]:
    folder = DUMPS / request.param
    async with AsyncMongoClient[dict[str, Any]](search_node.uri, tz_aware=True) as client:
        database = client[f"upgrade_{uuid4().hex[:12]}"]
        expected = read_expected(folder)
        written_at = datetime.fromisoformat(expected["written_at"])
        await stored_dump.load(folder / DATABASE, database, written_at=written_at)
        yield RestoredDump(search_node.uri, database, expected)
        await client.drop_database(database)


@pytest.fixture(scope="module")
async def upgraded(
    restored: RestoredDump,
    broker: KafkaCluster | Broker,
    model_server: ModelServerProcess,
    zygote: Zygote,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[UpgradedSystem]:
    database = restored.database
    quick = QUICK if isinstance(broker, Broker) else QUICK_ON_KAFKA
    stack = Stack(
        tmp_path_factory.mktemp("upgrade"),
        env={**quick, **SETTINGS, **settings_of_dump(restored.expected["secrets"])},
        mongo_uri=restored.mongo_uri,
        kafka=broker if isinstance(broker, Broker) else broker.bootstrap,
        models_api_base=model_server.api_base,
        zygote=zygote,
        database=database.name,
        topic_prefix=f"{database.name}.",
    )
    async with stack, http_of(stack) as http, publisher(stack) as events:
        kafka = KafkaLog(stack.kafka_connection, stack.topic_prefix)
        system = SystemToFill(http, events, kafka, stack.organization_id)
        yield UpgradedSystem(stack, system, database, restored.expected)


def settings_of_dump(secrets: dict[str, str]) -> dict[str, str]:
    return {
        "KB_API_KEY_PEPPER": secrets["api_key_pepper"],
        "KB_BOOTSTRAP_ADMIN_KEY": secrets["api_key"],
        "KB_BOOTSTRAP_ORGANIZATION": secrets["organization_id"],
        "KB_OPERATOR_ORGANIZATION": secrets["organization_id"],
        "KB_PROVIDER_KEYS": secrets["provider_keys"],
    }


def http_of(stack: Stack, *, api_key: str | None = None) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=f"{stack.base_url}/v0/orgs/{stack.organization_id}",
        headers={"Authorization": f"Bearer {api_key or stack.api_key}"},
        timeout=30,
        trust_env=False,
        verify=NO_TLS,
    )


def publisher(stack: Stack) -> EventPublisher:
    idempotence = stack.broker is None  # the local broker has none
    return EventPublisher(
        stack.kafka_connection, source="/tests/upgrade", topic_prefix=stack.topic_prefix, idempotence=idempotence
    )


async def test_the_data_is_migrated_once(upgraded: UpgradedSystem) -> None:
    async def it_is_current() -> bool:
        return (await schema_version.get(upgraded.database)).schema_version == schema_version.SCHEMA_VERSION

    await until(it_is_current)
    names = {"_id_", "retired_at_1", *(index.document["name"] for index in INDEXES)}
    for kb in upgraded.kbs.values():
        assert set(await upgraded.database[f"kb_vectors_{kb['kb_id']}"].index_information()) == names


async def test_searches_find_the_same_passages(upgraded: UpgradedSystem) -> None:
    for kb in upgraded.kbs.values():
        for query, chunk_id in kb["searches"].items():
            await until_found(upgraded, kb["kb_id"], query, chunk_id=chunk_id)


async def until_found(upgraded: UpgradedSystem, kb_id: str, query: str, *, chunk_id: str) -> None:
    """Wait until a passage is the first result: the search indexes, which no dump contains, are built again."""

    async def it_is_found_first() -> bool:
        return await find_best(upgraded.system, kb_id, query) == chunk_id

    await until(it_is_found_first, what=f"{chunk_id} is found first")


async def test_a_full_pass_repairs_what_old_data_lacks_and_finds_nothing_after_that(upgraded: UpgradedSystem) -> None:
    await upgraded.reconcile()
    await upgraded.until_idle()
    assert await upgraded.reconcile() == {}


async def test_reindexing_keeps_all_chunks_and_costs_nothing(upgraded: UpgradedSystem) -> None:
    spus, began = await upgraded.spus(), datetime.now(UTC)
    for kb in upgraded.kbs.values():
        await upgraded.system.call("POST", f"/knowledge-bases/{kb['kb_id']}/reindex")

    async def all_are_reindexed() -> bool:
        rows = await upgraded.database["document_index"].find().to_list()
        return all(row["indexed_at"] >= began for row in rows)

    await until(all_are_reindexed)
    await upgraded.until_idle()
    for kb in upgraded.kbs.values():
        for document_id, chunk_ids in kb["chunks"].items():
            assert await upgraded.chunk_ids(kb["kb_id"], document_id) == chunk_ids
    assert await upgraded.spus() == spus


async def test_documents_have_their_states(upgraded: UpgradedSystem) -> None:
    failed = await upgraded.system.call("GET", f"/documents/{FAILED_DOCUMENT}")
    assert [(each["kb_id"], each["status"]) for each in failed["knowledge_bases"]] == [
        (upgraded.kbs[LIMITED]["kb_id"], "failed")
    ]
    moved = await upgraded.system.call("GET", "/documents/moved")
    assert [each["kb_id"] for each in moved["knowledge_bases"]] == [upgraded.kbs[CONTRACTS]["kb_id"]]
    assert not (await upgraded.system.call("GET", f"/documents/{DELETED_DOCUMENT}"))["alive"]


async def test_a_key_of_the_old_version_may_do_what_it_might_before(upgraded: UpgradedSystem) -> None:
    kb_id = upgraded.kbs[MANUALS]["kb_id"]
    async with http_of(upgraded.stack, api_key=upgraded.expected["reading_key"]) as http:
        answer = await http.post(f"/knowledge-bases/{kb_id}/search", json={"query": "pump"})
        assert answer.status_code == 200, answer.text
        assert (await http.post(f"/knowledge-bases/{kb_id}/reindex")).status_code == 403


async def test_prompts_agents_conversations_and_limits_are_there(upgraded: UpgradedSystem) -> None:
    call = upgraded.system.call
    assert [each["name"] for each in (await call("GET", "/prompts"))["prompts"]] == ["Short answers"]
    agents = (await call("GET", "/agents"))["agents"]
    assert [(each["name"], [tool["tool_name"] for tool in each["tools"]]) for each in agents] == [
        ("Mechanic", ["manuals"])
    ]
    threads = (await call("GET", "/threads"))["threads"]
    assert [each["title"] for each in threads] == ["Pumps"]
    budget = await call("GET", "/budget")
    assert (budget["soft"], budget["hard"]) == (500_000, 1_000_000)
    assert (await call("GET", "/llm-providers/openai"))["api_key_last4"] == "test"


async def test_a_changed_document_is_indexed_again(upgraded: UpgradedSystem) -> None:
    kb_id = upgraded.kbs[MANUALS]["kb_id"]
    kept, added = paragraph(0, "pump"), paragraph(77, "pump")
    await upgraded.system.events.publish(
        OcrCompleted(
            organization_id=upgraded.system.organization_id,
            document_id="pump",
            revision=7,
            document_name="pump.pdf",
            tag_ids=["manual"],
            upload_date=UPLOADED,
            text=f"{kept}\n\n{added}",
        )
    )

    async def both_paragraphs_are_its_chunks() -> bool:
        chunks = await list_chunks(upgraded.system, kb_id, "pump")
        return [each["content"] for each in chunks] == [kept, added]

    await until(both_paragraphs_are_its_chunks)
    kept_id, added_id = await upgraded.chunk_ids(kb_id, "pump")
    assert kept_id == upgraded.kbs[MANUALS]["chunks"]["pump"][0]
    await until_found(upgraded, kb_id, added, chunk_id=added_id)
