from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from aiokafka.errors import TopicAuthorizationFailedError

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
        await check_topics(KafkaConnection("no-broker:1"), [])


async def test_unreadable_settings_are_logged_once_and_not_at_each_check() -> None:
    refused: tuple[Any, ...] = (TopicAuthorizationFailedError.errno, None, 2, "a-topic", [])

    class Admin:
        async def describe_configs(self, _: object) -> list[Any]:
            return [SimpleNamespace(resources=[refused])]

    with structlog.testing.capture_logs() as lines:
        assert [await topics._read_settings(Admin(), ["a-topic"]) for _ in range(3)] == [{}, {}, {}]
    assert [line["event"] for line in lines] == ["topic.settings_unreadable"]
