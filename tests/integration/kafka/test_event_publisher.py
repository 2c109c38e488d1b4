from datetime import UTC, datetime
from typing import Any

import pytest
from aiokafka.protocol.produce import ProduceRequest

from kb_client.events import EventPublisher
from kb_contracts.documents import OcrCompleted
from kb_contracts.topics import DOCUMENT_EVENTS
from kb_local.broker import Broker
from kb_shared.kafka import producer as module
from kb_shared.kafka.topics import ensure_topics
from kb_shared.kafka_connection.clients import producer_client
from kb_shared.kafka_connection.connection import KafkaConnection
from tests.conftest import KafkaCluster
from tests.integration.kafka.support import ON_KAFKA

EVENTS = 60


def with_text(revision: int) -> OcrCompleted:
    return OcrCompleted(
        organization_id="o",
        document_id="d",  # one document, and so one partition
        revision=revision,
        document_name="d",
        tag_ids=["t"],
        upload_date=datetime.now(UTC),
        text="w" * 20_000,
    )


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The requests by which messages are sent to a broker."""
    sent: list[object] = []

    def noting(*arguments: Any, **options: Any) -> Any:
        client = producer_client(*arguments, **options)
        send = client.client.send

        def note(node: int, request: Any, **others: Any) -> Any:
            if isinstance(request, ProduceRequest):
                sent.append(request)
            return send(node, request, **others)

        client.client.send = note
        return client

    monkeypatch.setattr(module, "producer_client", noting)
    return sent


async def test_many_events_with_their_texts_go_in_few_requests(
    broker: KafkaCluster | Broker, topic_prefix: str, requests: list[object]
) -> None:
    await ensure_topics(KafkaConnection(broker.bootstrap), [DOCUMENT_EVENTS], prefix=topic_prefix)
    async with EventPublisher(
        broker.bootstrap, source="/tests", topic_prefix=topic_prefix, idempotence=ON_KAFKA
    ) as events:
        await events.publish_all([with_text(n) for n in range(EVENTS)])
    assert 1 <= len(requests) <= EVENTS / 5
