import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from aiokafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    NotLeaderForPartitionError,
    TopicAuthorizationFailedError,
    UnknownError,
    for_code,
)

from kb_shared.errors import MessageRefused, TransientError
from kb_shared.kafka.producer import DeliveryOutcome, Producer, ProducerMessage
from kb_shared.kafka_connection.connection import KafkaConnection

INVALID_RECORD = 87


class FakeClient:
    """Answers each message as its key says: an error of this name when it is acknowledged or, `now/`, handed over."""

    def __init__(self, errors: Mapping[str, KafkaError]) -> None:
        self._errors = errors
        self.handed_over: list[str] = []

    async def send(self, _topic: str, *, key: bytes, **_others: Any) -> asyncio.Future[None]:
        when, _, what = key.decode().rpartition("/")
        self.handed_over.append(what)
        acknowledgement: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if what not in self._errors:
            acknowledgement.set_result(None)
        elif when == "now":
            raise self._errors[what]
        else:
            acknowledgement.set_exception(self._errors[what])
        return acknowledgement


async def send_each(keys: Sequence[str], errors: Mapping[str, KafkaError]) -> tuple[list[DeliveryOutcome], list[str]]:
    producer = Producer(KafkaConnection("nowhere:1"), idempotence=False)
    producer._client = client = FakeClient(errors)
    outcomes = await producer.send_each([ProducerMessage("t", key.encode(), b"a secret text") for key in keys])
    return outcomes, client.handed_over


@pytest.mark.parametrize("when", ["now", "later"])
async def test_messages_after_a_refused_one_are_sent(when: str) -> None:
    outcomes, _ = await send_each(["a", f"{when}/b", "c"], {"b": MessageSizeTooLargeError("a secret text")})
    before, refused, after = outcomes
    assert (before, after) == (None, None)
    assert isinstance(refused, MessageRefused)
    assert refused.reason == "too-large"
    assert "secret" not in str(refused)


async def test_only_what_can_never_be_taken_is_refused() -> None:
    errors = {
        "invalid": for_code(INVALID_RECORD)(),
        "unknown": UnknownError(),
        "moved": NotLeaderForPartitionError(),
        "forbidden": TopicAuthorizationFailedError("t"),
    }
    outcomes, _ = await send_each([f"later/{name}" for name in errors], errors)
    assert [type(outcome) for outcome in outcomes] == [MessageRefused] + [TransientError] * 3
    assert isinstance(outcomes[0], MessageRefused)
    assert outcomes[0].reason == "invalid-record"


async def test_a_cluster_that_is_away_is_waited_for_once_and_not_by_each_message() -> None:
    outcomes, handed_over = await send_each(["a", "now/b", "c", "d"], {"b": KafkaTimeoutError()})
    assert handed_over == ["a", "b"]
    assert [type(outcome) for outcome in outcomes] == [type(None), TransientError, TransientError, TransientError]
