"""`kb set-up` as an operator or a job runs it."""

import asyncio
import json
from dataclasses import asdict, replace

import pytest

from kb_contracts.topics import DOCUMENT_EVENTS, TOPICS
from kb_local.broker import Broker
from kb_local.mongod import Mongod
from kb_local.ports import free_port
from kb_local.python_server import SearchNodeProcess
from kb_reconciler.indexes import COLLECTIONS
from kb_reconciler.migrations.migrate import Migrator
from kb_reconciler.migrations.registry import MIGRATIONS
from kb_reconciler.set_up.set_up import SetUpFailed, set_up
from kb_shared.errors import VersionTooOld
from kb_shared.kafka.topics import check_topics, ensure_topics
from kb_shared.mongo import chunk_indexes, schema_version
from kb_shared.mongo.chunk_indexes import TEXT_INDEX, IndexState
from kb_shared.mongo.database import Database
from kb_shared.settings import CommonSettings
from tests.conftest import KafkaCluster, RunningMongo
from tests.integration.reconciler.test_backup_commands import run
from tests.integration.search.knowledge import create
from tests.waiting import until

NOBODY = f"127.0.0.1:{free_port()}"


@pytest.fixture
def environment(
    search_node: RunningMongo | SearchNodeProcess,
    broker: KafkaCluster | Broker,
    search_database: Database,
    topic_prefix: str,
) -> dict[str, str]:
    return {
        "KB_MONGO_URI": search_node.uri,
        "KB_MONGO_DATABASE": search_database.name,
        "KB_KAFKA": broker.bootstrap,
        "KB_KAFKA_TOPIC_PREFIX": topic_prefix,
    }


@pytest.fixture
def settings(environment: dict[str, str]) -> CommonSettings:
    return CommonSettings.model_validate(
        {name.removeprefix("KB_").lower(): value for name, value in environment.items()}
    )


async def test_a_new_deployment_is_set_up_and_a_second_run_changes_nothing(
    environment: dict[str, str], settings: CommonSettings, search_database: Database
) -> None:
    status, output, errors = await run("set-up", "--json", **environment)
    assert status == 0, errors
    first = json.loads(output)
    assert first["topics"] == [settings.kafka_topic_prefix + topic.name for topic in TOPICS]
    await check_topics(settings.kafka_connection, TOPICS, prefix=settings.kafka_topic_prefix)
    indexes = {name: await search_database[name].index_information() for name, _ in COLLECTIONS}
    assert all(len(found) > 1 for found in indexes.values())

    assert asdict(await set_up(settings, within_s=60)) == first
    assert indexes == {name: await search_database[name].index_information() for name, _ in COLLECTIONS}


async def test_search_indexes_that_are_missing_are_created(settings: CommonSettings, search_database: Database) -> None:
    knowledge = await create(search_database, "acme")
    collection = knowledge.chunks.collection
    await collection.drop_search_index(TEXT_INDEX)
    assert (await set_up(settings, within_s=60)).knowledge_bases == 1

    async def ready() -> bool:
        return await chunk_indexes.read_state(collection, knowledge.kb) is IndexState.READY

    await until(ready)


async def test_pending_migrations_are_reported_or_waited_for(
    settings: CommonSettings, search_database: Database
) -> None:
    row = {"_id": schema_version.ID, "schema_version": 1, "oldest_reader": 1}
    await search_database[schema_version.NAME].insert_one(row)
    names = [migration.name for migration in MIGRATIONS]
    found = await set_up(settings, within_s=60)
    assert found.pending_migrations == names

    reasons = asyncio.Queue[str]()
    waiting = asyncio.create_task(set_up(settings, within_s=60, migrations=True, note=reasons.put_nowait))
    assert f"these migrations are not finished: {', '.join(names)}" in await reasons.get()
    await Migrator(search_database, "a reconciler").make_pending()
    assert (await waiting).pending_migrations == []


async def test_data_of_a_later_version_is_refused(settings: CommonSettings, search_database: Database) -> None:
    later = schema_version.SCHEMA_VERSION + 1
    row = {"_id": schema_version.ID, "schema_version": later, "oldest_reader": later}
    await search_database[schema_version.NAME].insert_one(row)
    with pytest.raises(VersionTooOld, match="start a later version"):
        await set_up(settings, within_s=60)


async def test_a_topic_with_too_few_partitions_is_named(settings: CommonSettings) -> None:
    small = replace(DOCUMENT_EVENTS, partitions=1)
    await ensure_topics(settings.kafka_connection, [small], prefix=settings.kafka_topic_prefix)
    with pytest.raises(SetUpFailed) as failed:
        await set_up(settings, within_s=60)
    assert f"topic '{settings.kafka_topic_prefix}document-events' has 1 partitions" in str(failed.value)
    assert "docs/how-to/kafka-permissions.md" in str(failed.value)


async def test_a_server_that_does_not_answer_is_named(settings: CommonSettings) -> None:
    without_kafka = settings.model_copy(update={"kafka": NOBODY})
    with pytest.raises(SetUpFailed, match=f"not within 1 s: Kafka at {NOBODY} does not answer"):
        await set_up(without_kafka, within_s=1)
    uri = f"mongodb://user:secret@{NOBODY}/?serverSelectionTimeoutMS=100"
    with pytest.raises(SetUpFailed, match="not within 3 s: MongoDB") as failed:
        await set_up(settings.model_copy(update={"mongo_uri": uri}), within_s=3)
    assert "secret" not in str(failed.value)


async def test_a_mongodb_without_search_is_refused(settings: CommonSettings, mongod: RunningMongo | Mongod) -> None:
    if isinstance(mongod, RunningMongo):
        pytest.skip("needs a mongod without search")
    reasons = asyncio.Queue[str]()
    without_search = settings.model_copy(update={"mongo_uri": mongod.uri})
    waiting = asyncio.create_task(set_up(without_search, within_s=60, note=reasons.put_nowait))
    assert "MongoDB has no Atlas search" in await reasons.get()
    waiting.cancel()


async def test_a_setting_that_can_not_be_used_is_named(environment: dict[str, str]) -> None:
    status, output, errors = await run("set-up", **(environment | {"KB_KAFKA_SECURITY_PROTOCOL": "TLS"}))
    assert (status, output, errors) == (1, "", "error: these settings can't be used: KB_KAFKA_SECURITY_PROTOCOL\n")
