from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from kb_local.broker import Broker
from tests.conftest import KafkaCluster
from tests.integration.kafka.support import Stream


@pytest.fixture
async def stream(broker: KafkaCluster | Broker, topic_prefix: str) -> Stream:
    """An empty topic with a consumer group of its own."""
    stream = Stream(broker.bootstrap, topic_prefix)
    await stream.create()
    return stream


@pytest.fixture(autouse=True)
def quiet_logs() -> Iterator[None]:
    """Without a configuration structlog draws tracebacks so lavishly that the event loop misses heartbeats."""
    with capture_logs():
        yield
