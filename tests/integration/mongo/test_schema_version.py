"""The version of the stored data: older code refuses it, neighbouring versions share it."""

from pathlib import Path
from typing import Final

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase

from kb_local.mongod import Mongod
from kb_local.ports import free_port
from kb_local.service import Service
from kb_local.wanted_services import ALL_SERVICES
from kb_local.zygote import Zygote
from kb_shared.errors import VersionTooOld
from kb_shared.mongo import schema_version
from kb_shared.mongo.database import Database
from kb_shared.mongo.schema_version import StoredSchema
from tests.conftest import RunningMongo
from tests.waiting import until

CURRENT: Final = schema_version.SCHEMA_VERSION
NEXT: Final = CURRENT + 1
SENTENCE: Final = (
    f"the database '{{database}}' needs a version of the services with schema version {NEXT} or later, and this one "
    f"has schema version {CURRENT}: start a later version, or restore a backup from before the update "
    "(docs/how-to/update.md)"
)


async def need_next_version(database: AsyncDatabase[dict[str, object]]) -> None:
    row = {"_id": schema_version.ID, "schema_version": NEXT, "oldest_reader": NEXT}
    await database[schema_version.NAME].insert_one(row)


def become(monkeypatch: pytest.MonkeyPatch, version: int, *, oldest_reader: int) -> None:
    """Let this process be code of that version."""
    monkeypatch.setattr(schema_version, "SCHEMA_VERSION", version)
    monkeypatch.setattr(schema_version, "OLDEST_READER", oldest_reader)


async def test_a_new_database_gets_the_version_of_the_code(database: Database) -> None:
    await schema_version.check(database)
    current = StoredSchema(schema_version.SCHEMA_VERSION, schema_version.OLDEST_READER)
    assert await schema_version.find(database) == current


@pytest.mark.parametrize("collection", ["api_keys", "documents", "knowledge_bases"])
async def test_a_database_that_was_used_before_there_were_versions_has_version_1(
    database: Database, collection: str
) -> None:
    await database[collection].insert_one({})
    await schema_version.check(database)
    assert (await schema_version.get(database)).schema_version == schema_version.BEFORE_VERSIONS


async def test_data_that_another_process_has_just_written_does_not_make_a_new_database_an_old_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    was_used = schema_version._was_used

    async def look_after_another_has_started(database: Database) -> bool:
        monkeypatch.undo()
        await schema_version.check(database)
        await database["api_keys"].insert_one({})
        return await was_used(database)

    monkeypatch.setattr(schema_version, "_was_used", look_after_another_has_started)
    await schema_version.check(database)
    assert (await schema_version.get(database)).schema_version == schema_version.SCHEMA_VERSION


async def test_code_older_than_the_oldest_reader_refuses_the_data_with_what_to_do(database: Database) -> None:
    await need_next_version(database)
    with pytest.raises(VersionTooOld) as refusal:
        await schema_version.check(database)
    assert str(refusal.value) == SENTENCE.format(database=database.name)


async def test_two_neighbouring_versions_start_in_any_order_and_the_one_before_them_does_not(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await schema_version.check(database)
    become(monkeypatch, NEXT, oldest_reader=CURRENT)
    await schema_version.check(database)
    become(monkeypatch, CURRENT, oldest_reader=CURRENT - 1)
    await schema_version.check(database)
    assert (await schema_version.get(database)).oldest_reader == CURRENT, "older code has lowered it"
    become(monkeypatch, CURRENT - 1, oldest_reader=1)
    with pytest.raises(VersionTooOld):
        await schema_version.check(database)


async def test_new_code_raises_the_oldest_reader_before_any_migration(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await schema_version.check(database)
    become(monkeypatch, NEXT + 1, oldest_reader=NEXT)
    await schema_version.check(database)
    assert await schema_version.find(database) == StoredSchema(CURRENT, oldest_reader=NEXT)


@pytest.mark.parametrize("package", [service for service in ALL_SERVICES if service != "kb_console"])
async def test_each_service_refuses_to_start_on_data_that_is_too_new_for_it(
    package: str, mongod: RunningMongo | Mongod, database_name: str, zygote: Zygote, tmp_path: Path
) -> None:
    async with AsyncMongoClient[dict[str, object]](mongod.uri) as client:
        database = client[database_name]
        await need_next_version(database)
        service = Service(
            package,
            package=package,
            zygote=zygote,
            port=free_port(),
            log=tmp_path / "log",
            # No broker is needed to see it.
            env={
                "KB_MONGO_URI": mongod.uri,
                "KB_MONGO_DATABASE": database_name,
                "KB_KAFKA": f"127.0.0.1:{free_port()}",
            },
        )

        async def it_ended_or_went_on() -> bool:
            went_on = "start.waiting" in service.log_tail() or len(await database.list_collection_names()) > 1
            return went_on or not service.running

        try:
            service.launch()
            await until(it_ended_or_went_on)
            assert service.returncode == 1, service.log_tail()
            names = await database.list_collection_names()
        finally:
            await service.kill()
            await client.drop_database(database_name)
    lines = [line for line in service.log.read_text().splitlines() if '"process.' in line]
    assert len(lines) == 1
    assert '"process.misconfigured"' in lines[0]
    assert SENTENCE.format(database=database_name) in lines[0]
    assert names == [schema_version.NAME], "a service wrote to data that it can't work with"


async def test_a_service_starts_beside_its_newer_neighbour(
    mongod: RunningMongo | Mongod, database: Database, zygote: Zygote, tmp_path: Path
) -> None:
    row = {"_id": schema_version.ID, "schema_version": NEXT, "oldest_reader": CURRENT, "unknown": True}
    await database[schema_version.NAME].insert_one(row)
    env = {"KB_MONGO_URI": mongod.uri, "KB_MONGO_DATABASE": database.name, "KB_KAFKA": f"127.0.0.1:{free_port()}"}
    log = tmp_path / "log"
    service = Service("kb-api", package="kb_api", zygote=zygote, port=free_port(), log=log, env=env)
    await service.start()
    assert await service.stop() == 0
    assert await database[schema_version.NAME].find().to_list() == [row]
