"""Migrations: each is made once, also if a reconciler dies meanwhile, and changes what it says."""

import asyncio
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client import REGISTRY
from pymongo import ASCENDING
from pymongo.errors import OperationFailure
from structlog.testing import capture_logs

from kb_local.broker import Broker
from kb_local.mongod import Mongod
from kb_local.ports import free_port
from kb_local.service import Service
from kb_local.stack import EMBEDDED_KAFKA
from kb_local.zygote import Zygote
from kb_reconciler.migrations import chunk_indexes
from kb_reconciler.migrations.migrate import LEASE, Migrator
from kb_reconciler.migrations.migration import Migration
from kb_reconciler.state import LeadershipLost
from kb_shared import failpoints
from kb_shared.mongo import index_jobs, knowledge_bases, leases, schema_version, vectors
from kb_shared.mongo.database import Database, in_transaction
from tests.conftest import KafkaCluster, RunningMongo
from tests.knowledge_bases import build_knowledge_base
from tests.waiting import until

KB_IDS: Final = [f"{n:024x}" for n in range(1, 4)]
OLD_INDEXES: Final = {"_id_", "document_id_1_chunk_index_1", "retired_at_1"}
NEW_INDEXES: Final = {"_id_", "chunks_of_documents", "retired_at_1"}


@pytest.fixture
async def old_data(database: Database) -> Database:
    """Create the rows and collections of three KBs of version 1."""
    for kb_id in KB_IDS:
        kb = build_knowledge_base(kb_id=kb_id, organization_id="acme")
        await in_transaction(database, partial(knowledge_bases.insert, database, kb=kb))
        chunks = database[f"kb_vectors_{kb_id}"]
        await chunks.create_index([("document_id", ASCENDING), ("chunk_index", ASCENDING)])
        await chunks.create_index("retired_at", expireAfterSeconds=60)
    await schema_version.check(database)
    return database


async def indexes_of_chunks(database: Database) -> list[set[str]]:
    return [set(await database[f"kb_vectors_{kb_id}"].index_information()) for kb_id in KB_IDS]


class CountedMigration:
    """The migration of the indexes of chunks, with a list of the batches that were begun."""

    def __init__(self) -> None:
        self.batches: list[str | None] = []
        self.as_list = [
            Migration(version=2, name="counted", description="", migrate_batch=self._migrate_batch),
        ]

    async def _migrate_batch(self, database: Database, after: str | None) -> str | None:
        self.batches.append(after)
        return await chunk_indexes.INDEX_OF_CHUNKS.migrate_batch(database, after)


async def stored(database: Database) -> dict[str, Any]:
    row = await database[schema_version.NAME].find_one({"_id": schema_version.ID})
    assert row is not None
    return row


async def test_collections_of_chunks_get_the_new_index_and_lose_the_old_one(old_data: Database) -> None:
    assert await indexes_of_chunks(old_data) == [OLD_INDEXES] * 3
    await Migrator(old_data, "one").run()
    assert await indexes_of_chunks(old_data) == [NEW_INDEXES] * 3
    row = await stored(old_data)
    assert row["schema_version"] == schema_version.SCHEMA_VERSION
    assert row["migrations"]["2"]["started_at"] <= row["migrations"]["2"]["finished_at"]
    assert not await leases.find_held(old_data, [LEASE])


async def test_jobs_lose_the_index_that_a_longer_one_has_replaced(old_data: Database) -> None:
    jobs = old_data[index_jobs.NAME]
    await jobs.create_index("state")
    await jobs.create_indexes(index_jobs.INDEXES)
    others = set(await jobs.index_information()) - {"state_1"}
    await Migrator(old_data, "one").run()
    assert set(await jobs.index_information()) == others
    row = await stored(old_data)
    assert row["migrations"]["3"]["finished_at"]


async def test_new_data_needs_no_migration(database: Database) -> None:
    await schema_version.check(database)
    await Migrator(database, "one").run()
    assert "migrations" not in await stored(database)


@pytest.mark.parametrize(
    ("failpoint", "begun_again"),
    [
        ("migration.after_begin", [None, *KB_IDS]),
        ("migration.after_batch", [None, None, *KB_IDS]),
        ("migration.after_marker", [None, *KB_IDS]),
        ("migration.before_finish", [None, *KB_IDS, KB_IDS[-1]]),
    ],
)
async def test_a_migration_whose_reconciler_died_is_resumed_after_its_last_complete_batch(
    old_data: Database, failpoint: str, begun_again: list[str | None]
) -> None:
    counted = CountedMigration()

    async def die() -> None:
        raise InterruptedError

    async with failpoints.during(failpoint, die):
        with pytest.raises(InterruptedError):
            await Migrator(old_data, "one", counted.as_list).make_pending()
    started_at = (await stored(old_data))["migrations"]["2"]["started_at"]
    assert (await stored(old_data))["schema_version"] == 1

    await Migrator(old_data, "two", counted.as_list).run()
    assert counted.batches == begun_again
    assert await indexes_of_chunks(old_data) == [NEW_INDEXES] * 3
    row = await stored(old_data)
    assert (row["schema_version"], row["migrations"]["2"]["started_at"]) == (2, started_at)


@pytest.fixture
def reconciler(
    old_data: Database,
    mongod: RunningMongo | Mongod,
    broker: KafkaCluster | Broker,
    zygote: Zygote,
    tmp_path: Path,
) -> Service:
    """Return the process that is deployed, not started yet."""
    env = {
        "KB_MONGO_URI": mongod.uri,
        "KB_MONGO_DATABASE": old_data.name,
        "KB_KAFKA": broker.bootstrap,
        "KB_KAFKA_TOPIC_PREFIX": f"{old_data.name}.",
        **(EMBEDDED_KAFKA if isinstance(broker, Broker) else {}),
    }
    return Service("kb-reconciler", "kb_reconciler", zygote=zygote, port=free_port(), log=tmp_path / "log", env=env)


@pytest.mark.parametrize("failpoint", failpoints.OF_MIGRATIONS)
async def test_a_migration_whose_reconciler_was_killed_is_finished_by_another(
    failpoint: str, old_data: Database, reconciler: Service
) -> None:
    reconciler.env["KB_FAILPOINT"] = failpoint
    reconciler.launch()
    await until(lambda: not reconciler.running)
    assert reconciler.returncode == -signal.SIGKILL, reconciler.log_tail()
    assert (await stored(old_data))["schema_version"] == 1
    assert await leases.find_held(old_data, [LEASE]), "a process that is killed gives nothing back"

    another = Migrator(old_data, "two")
    await another.make_pending()
    assert (await stored(old_data))["schema_version"] == 1, "the lease is held"
    await old_data[leases.NAME].update_one({"_id": LEASE}, {"$set": {"until": datetime.now(UTC)}})
    await until_made(another)
    assert await indexes_of_chunks(old_data) == [NEW_INDEXES] * 3


async def until_made(migrator: Migrator) -> None:
    async def nothing_is_pending() -> bool:
        await migrator.make_pending()
        return not await migrator.find_pending()

    await until(nothing_is_pending)


async def test_of_two_reconcilers_one_makes_a_migration_and_the_other_waits_for_it(
    old_data: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kb_reconciler.migrations.migrate._ASKED_AGAIN_AFTER_S", 0.01)
    counted = CountedMigration()
    one, two = (Migrator(old_data, owner, counted.as_list) for owner in ("one", "two"))

    async def meet_the_other() -> None:
        await two.make_pending()

    async with failpoints.during("migration.after_batch", meet_the_other):
        await one.make_pending()
    await asyncio.gather(one.run(), two.run())
    assert counted.batches == [None, *KB_IDS]


async def test_a_reconciler_that_lost_its_migration_stores_nothing_more(old_data: Database) -> None:
    counted = CountedMigration()

    async def take_over() -> None:
        await leases.release(old_data, LEASE, owner="one")
        await Migrator(old_data, "two").make_pending()

    async with failpoints.during("migration.after_batch", once(take_over)):
        with pytest.raises(LeadershipLost):
            await Migrator(old_data, "one", counted.as_list).make_pending()
    row = await stored(old_data)
    assert (row["migrations"]["2"]["owner"], row["migrations"]["2"]["marker"]) == ("two", KB_IDS[-1])


def once(action: Callable[[], Any]) -> Callable[[], Any]:
    pending = [action]

    async def act() -> None:
        if pending:
            await pending.pop()()

    return act


async def test_a_long_batch_ends_when_another_reconciler_has_taken_the_lease(old_data: Database) -> None:
    began = asyncio.Event()

    async def never_end(_: Database, __: str | None) -> str | None:
        began.set()
        await asyncio.Event().wait()
        return None

    endless = [Migration(version=2, name="endless", description="", migrate_batch=never_end)]
    making = asyncio.create_task(Migrator(old_data, "one", endless, lease_length=timedelta(seconds=0.3)).make_pending())
    await began.wait()
    length = timedelta(minutes=1)

    async def another_has_taken_it() -> bool:
        await leases.release(old_data, LEASE, owner="one")
        return await leases.acquire(old_data, LEASE, owner="two", length=length)

    await until(another_has_taken_it)
    with pytest.raises(LeadershipLost):
        await making


async def test_a_migration_that_fails_is_tried_again_and_shown_as_pending(
    old_data: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kb_reconciler.migrations.migrate._ASKED_AGAIN_AFTER_S", 0.01)
    counted = CountedMigration()

    async def fail() -> None:
        raise OperationFailure("with the text of a document")

    pending: list[float | None] = []

    async def note_metric_and_fail() -> None:
        pending.append(REGISTRY.get_sample_value("kb_migrations_pending"))
        await fail()

    with capture_logs() as logs:
        async with failpoints.during("migration.after_batch", once(note_metric_and_fail)):
            await Migrator(old_data, "one", counted.as_list).run()
    assert [*pending, REGISTRY.get_sample_value("kb_migrations_pending")] == [1, 0]
    assert [line["error"] for line in logs if line["event"] == "migration.interrupted"] == ["OperationFailure"]
    assert counted.batches == [None, None, *KB_IDS]


async def test_the_collection_of_a_knowledge_base_that_is_being_created_or_deleted_is_not_created(
    old_data: Database,
) -> None:
    await old_data.drop_collection(f"kb_vectors_{KB_IDS[1]}")
    await Migrator(old_data, "one").run()
    assert f"kb_vectors_{KB_IDS[1]}" not in await old_data.list_collection_names()
    assert (await indexes_of_chunks(old_data))[2] == NEW_INDEXES


async def test_an_old_index_that_the_user_may_not_drop_is_kept_and_logged(
    old_data: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise OperationFailure("not authorized on kb to execute command", code=13)

    monkeypatch.setattr("pymongo.asynchronous.collection.AsyncCollection.drop_index", refuse)
    with capture_logs() as logs:
        await Migrator(old_data, "one").run()
    assert await indexes_of_chunks(old_data) == [NEW_INDEXES | OLD_INDEXES] * 3
    kept = [(line["collection"], line["index"]) for line in logs if line["event"] == "migration.index_kept"]
    assert kept == [
        *((f"kb_vectors_{kb_id}", "document_id_1_chunk_index_1") for kb_id in KB_IDS),
        ("index_jobs", "state_1"),
    ]


async def test_a_new_collection_of_chunks_has_the_indexes_of_migrated_ones(database: Database) -> None:
    await vectors.create_indexes(database["new"])
    assert set(await database["new"].index_information()) == NEW_INDEXES
