"""What services export of a MongoDB that does not answer."""

from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic

import pymongo
import pytest
from prometheus_client import REGISTRY
from pymongo.errors import OperationFailure, PyMongoError

from kb_local.mongod import Mongod
from kb_local.ports import free_port
from kb_shared.mongo.database import Database, connect
from kb_shared.settings import CommonSettings


@pytest.fixture
async def member(tmp_path: Path) -> AsyncIterator[Mongod]:
    member = Mongod(tmp_path / "data", port=free_port(), log=tmp_path / "log")
    await member.start()
    yield member
    member.resume()
    await member.kill()


@pytest.fixture
async def database(member: Mongod) -> AsyncIterator[Database]:
    database = connect(CommonSettings(mongo_uri=member.uri, mongo_database="kb"))
    yield database
    await database.client.close()


def age_s() -> float:
    age_s = REGISTRY.get_sample_value("kb_mongo_last_answer_age_seconds")
    assert age_s is not None
    return age_s


async def test_the_last_answer_is_of_a_command_that_succeeded(member: Mongod, database: Database) -> None:
    began = monotonic()
    await database.command("ping")
    assert age_s() <= monotonic() - began
    answered = monotonic()

    with pytest.raises(OperationFailure):
        await database.command("no such command")
    assert monotonic() - answered <= age_s()
    await member.pause()
    with pytest.raises(PyMongoError), pymongo.timeout(0.5):
        await database.command("ping")
    assert 0.5 <= monotonic() - answered <= age_s()

    resumed = monotonic()
    member.resume()
    await database.command("ping")
    assert age_s() <= monotonic() - resumed


async def test_without_any_answer_the_age_is_that_of_the_process() -> None:
    began = monotonic()
    database = connect(CommonSettings(mongo_uri=f"mongodb://127.0.0.1:{free_port()}/", mongo_database="kb"))
    connected = monotonic()
    with pytest.raises(PyMongoError), pymongo.timeout(0.1):
        await database.command("ping")
    assert monotonic() - connected <= age_s() <= monotonic() - began
    await database.client.close()
