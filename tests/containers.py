"""MongoDB with Atlas search and Apache Kafka as containers of a Docker engine, removed when the run ends."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Self

from pymongo import AsyncMongoClient
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HealthcheckWaitStrategy, LogMessageWaitStrategy

from tests.backend import ATLAS_LOCAL_IMAGE, KAFKA_IMAGE

_MONGO_PORT: Final = 27017
_KAFKA_PORT: Final = 9092
_WITHIN_S: Final = 180
_TRANSACTION_LIFETIME_S: Final = 5
_START_SCRIPT: Final = "/tmp/start-kafka.sh"  # in the container


@asynccontextmanager
async def atlas_local() -> AsyncIterator[str]:
    """Run a replica set of one member with Atlas search; gives its URI.

    The member calls itself by a name that only the container knows, hence `directConnection`.
    """
    container = DockerContainer(ATLAS_LOCAL_IMAGE).with_exposed_ports(_MONGO_PORT)
    container.waiting_for(HealthcheckWaitStrategy().with_startup_timeout(_WITHIN_S))
    async with _running(container):
        uri = f"mongodb://{_address(container, _MONGO_PORT)}/?directConnection=true"
        async with AsyncMongoClient[dict[str, Any]](uri) as client:
            # Tests kill clients in the middle of transactions, whose locks then have to go soon.
            await client.admin.command("setParameter", 1, transactionLifetimeLimitSeconds=_TRANSACTION_LIFETIME_S)
        yield uri


@asynccontextmanager
async def kafka() -> AsyncIterator[str]:
    """Run one broker of Apache Kafka; gives its bootstrap server."""
    container = _KafkaContainer()
    async with _running(container):
        yield _address(container, _KAFKA_PORT)


@asynccontextmanager
async def _running(container: DockerContainer) -> AsyncIterator[None]:
    try:
        await asyncio.to_thread(container.start)
        yield
    finally:
        # Also one that did not become ready. What is left by a run that was killed is removed by the library's reaper.
        await asyncio.to_thread(container.stop)


def _address(container: DockerContainer, port: int) -> str:
    return f"{container.get_container_host_ip()}:{container.get_exposed_port(port)}"


class _KafkaContainer(DockerContainer):
    """A broker that tells its clients the port of the host, which is known only once the container has started."""

    def __init__(self) -> None:
        super().__init__(KAFKA_IMAGE)
        self.with_exposed_ports(_KAFKA_PORT)
        self.with_command(["sh", "-c", f"while [ ! -f {_START_SCRIPT} ]; do sleep 0.1; done; sh {_START_SCRIPT}"])
        self.with_envs(
            KAFKA_NODE_ID="1",
            KAFKA_PROCESS_ROLES="broker,controller",
            KAFKA_CONTROLLER_QUORUM_VOTERS="1@localhost:9094",
            KAFKA_CONTROLLER_LISTENER_NAMES="CONTROLLER",
            KAFKA_LISTENERS=f"PLAINTEXT://0.0.0.0:{_KAFKA_PORT},BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094",
            KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="PLAINTEXT:PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            KAFKA_INTER_BROKER_LISTENER_NAME="BROKER",
            KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR="1",
            KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR="1",
            KAFKA_TRANSACTION_STATE_LOG_MIN_ISR="1",
            KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS="0",
            # Tests have sessions of 2 s, so that a killed consumer is missed soon.
            KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS="1000",
            KAFKA_AUTO_CREATE_TOPICS_ENABLE="false",
        )

    def start(self) -> Self:
        super().start()
        script = (
            f"export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{_address(self, _KAFKA_PORT)},BROKER://localhost:9093\n"
            "exec /etc/kafka/docker/run\n"
        )
        self.copy_into_container(script.encode(), _START_SCRIPT)
        started = LogMessageWaitStrategy(re.compile(r"Kafka Server started"))
        started.with_startup_timeout(_WITHIN_S).wait_until_ready(self)
        return self
