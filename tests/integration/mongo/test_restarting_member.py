from pathlib import Path

import pytest
from pymongo import AsyncMongoClient

from kb_local.mongod import Mongod
from kb_local.ports import free_port
from kb_shared.errors import TransientError
from kb_shared.mongo.database import Row, mongo_errors


async def test_a_member_that_has_not_joined_its_set_yet_is_asked_again(tmp_path: Path) -> None:
    """As after its restart: the driver finds it by the address of the former primary, and it takes no sessions."""
    member = Mongod(tmp_path / "data", port=free_port(), log=tmp_path / "log", alone=False)
    member.launch()
    try:
        async with (
            AsyncMongoClient[Row](f"mongodb://{member.address}/?directConnection=true") as client,
            client.start_session() as session,
        ):
            with pytest.raises(TransientError), mongo_errors():
                await client.kb.documents.find_one({}, session=session)
    finally:
        await member.kill()
