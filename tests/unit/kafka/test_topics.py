from typing import Any

import pytest

from kb_shared.errors import TransientError
from kb_shared.kafka import topics
from kb_shared.kafka.topics import check_topics
from kb_shared.kafka_connection.connection import KafkaConnection


class FailingAdmin:
    async def start(self) -> None:
        raise AssertionError("some check of the client library")

    async def close(self) -> None:
        pass


async def test_an_error_of_the_client_library_is_one_that_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def admin_client(_: KafkaConnection, **__: Any) -> FailingAdmin:
        return FailingAdmin()

    monkeypatch.setattr(topics, "admin_client", admin_client)
    with pytest.raises(TransientError, match="AssertionError"):
        await check_topics(KafkaConnection("nobody:1"), [])
