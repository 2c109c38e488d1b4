from types import SimpleNamespace
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import ConfigurationError
from pymongo.read_preferences import ReadPreference

from kb_shared.errors import TransientError
from kb_shared.mongo.database import mongo_errors


async def test_a_member_that_is_starting_and_has_no_sessions_yet_is_asked_again_later() -> None:
    starting: Any = SimpleNamespace(supports_sessions=False)
    async with AsyncMongoClient[dict[str, Any]](connect=False) as client, client.start_session() as session:
        with pytest.raises(TransientError), mongo_errors():
            session._apply_to({"find": "documents"}, False, ReadPreference.PRIMARY, starting)


def test_another_mistake_in_the_configuration_stays_what_it_is() -> None:
    with pytest.raises(ConfigurationError), mongo_errors():
        raise ConfigurationError("unknown option")
