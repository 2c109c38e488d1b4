"""Apache Kafka on this machine: one broker or three, which tests can kill, freeze, restart and set otherwise."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.admin import DescribeConfigsRequest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from kb_local.ports import free_port
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from tests.kafka_cluster.broker import KafkaBroker
from tests.kafka_cluster.certificates import Certificate, CertificateAuthority
from tests.kafka_cluster.jars import class_path
from tests.kafka_cluster.server_properties import CONTROLLER, Listener, ListenerAddress, server_properties
from tests.waiting import until

WITHIN_S: Final = 180.0
METADATA_WITHIN_S: Final = 5.0


class KafkaBrokers:
    """A cluster of its own, in a folder of its own; an asynchronous context manager.

    All brokers die with this process, however it ends.
    """

    def __init__(
        self, folder: Path, *, brokers: int = 3, settings: Mapping[str, str] | None = None, logs: Path | None = None
    ) -> None:
        """Describe the cluster.

        Args:
            folder: empty or absent.
            brokers: 1 or 3; with three all topics have three replicas by default, of which two must be in sync.
            settings: of all brokers, over those of `server_properties`.
            logs: folder for their logs, instead of `folder`.
        """
        self._settings = dict(settings or {})
        self.authority = CertificateAuthority(folder / "certificates")
        key_store = self.authority.sign("localhost").both
        addresses = [
            ListenerAddress(number, {name: free_port() for name in (*Listener, CONTROLLER)})
            for number in range(1, brokers + 1)
        ]
        jars = class_path()
        self.brokers = [
            KafkaBroker(
                place,
                folder / str(place.number),
                log=(logs or folder) / f"kafka-{place.number}.log",
                class_path=jars,
                properties=server_properties(
                    place,
                    addresses,
                    data=folder / str(place.number) / "data",
                    key_store=key_store,
                    trust_store=self.authority.certificate,
                )
                | self._settings,
            )
            for place in addresses
        ]
        self._places = addresses
        self._admin: AdminClient | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start all brokers and return when all of them take part; on an error none is left running."""
        cluster_id = base64.urlsafe_b64encode(b"\x01" + uuid4().bytes[1:]).decode().rstrip("=")
        await run_all_or_cancel(asyncio.to_thread(broker.format, cluster_id) for broker in self.brokers)
        try:
            # None is ready before a majority of them has elected a controller.
            for broker in self.brokers:
                broker.launch()
            await run_all_or_cancel(broker.wait_ready() for broker in self.brokers)
            await self.until_in_sync()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Kill all brokers; their data is no longer needed."""
        self._admin = None
        await run_all_or_cancel(broker.kill() for broker in self.brokers)

    def bootstrap(self, listener: Listener = Listener.PLAINTEXT) -> str:
        """Return the addresses of all brokers, as `host:port,host:port`."""
        return ",".join(place.address(listener) for place in self._places)

    def client_certificate(self, principal: str) -> Certificate:
        """Return a new certificate, with which a client is `User:<principal>` at the listener MTLS."""
        return self.authority.sign(principal)

    @property
    def admin(self) -> AdminClient:
        """A client that may do everything; its methods return futures for `asyncio.wrap_future`."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap(), "log_level": 0})
        return self._admin

    async def controller(self) -> KafkaBroker:
        """Return the broker that is the active controller, once there is one."""
        found: list[KafkaBroker] = []

        def elected() -> bool:
            found[:] = [broker for broker in self.brokers if broker.running and broker.number == self._leader()]
            return bool(found)

        await until(elected, within_s=WITHIN_S, what="a controller")
        return found[0]

    def _leader(self) -> int | None:
        """The id of the newest leader of the cluster's metadata that a running broker has noted."""
        states = [json.loads(_quorum_state(each).read_text()) for each in self.brokers if each.running]
        newest = max(states, key=lambda state: state["leaderEpoch"], default={"leaderId": None})
        leader: int | None = newest["leaderId"]
        return leader

    async def leader_of(self, topic: str, partition: int = 0) -> KafkaBroker:
        """Return the broker that leads a partition, once there is one."""
        found: list[KafkaBroker] = []

        async def led() -> bool:
            topics = await self._topics()
            leader = topics[topic].partitions[partition].leader if topic in topics else None
            found[:] = [broker for broker in self.brokers if broker.number == leader]
            return bool(found)

        await until(led, within_s=WITHIN_S, what=f"a leader of {topic}-{partition}", every_s=0.1)
        return found[0]

    async def restart(self, broker: KafkaBroker, **settings: str) -> None:
        """Restart a broker in an orderly way; with `settings`, whose names are written with `_` for `.`."""
        await broker.stop()
        broker.settings |= {name.replace("_", "."): value for name, value in settings.items()}
        await broker.start()
        await self.until_in_sync()

    async def rolling_restart(self, between: Callable[[], Awaitable[None]] | None = None) -> None:
        """Restart one broker after the other, each when the one before has caught up."""
        for broker in self.brokers:
            await self.restart(broker)
            if between is not None:
                await between()

    async def heal(self) -> None:
        """Have every broker run, with the settings that it had at first, and every replica in sync."""
        for broker in self.brokers:
            if broker.running:
                broker.resume()
            if broker.running and broker.launched_with:
                await broker.stop()
            broker.settings = {}
        dead = [broker for broker in self.brokers if not broker.running]
        for broker in dead:
            broker.launch()
        await run_all_or_cancel(broker.wait_ready() for broker in dead)
        await self.until_in_sync()

    async def until_in_sync(self) -> None:
        """Wait until all brokers take part and no partition lacks a leader or a replica."""
        await until(self._in_sync, within_s=WITHIN_S, what="all replicas in sync", every_s=0.1)

    async def _in_sync(self) -> bool:
        try:
            metadata = await asyncio.to_thread(self.admin.list_topics, timeout=METADATA_WITHIN_S)
        except KafkaException:
            return False
        partitions = [each for topic in metadata.topics.values() for each in topic.partitions.values()]
        return len(metadata.brokers) == len(self.brokers) and all(
            each.leader >= 0 and set(each.isrs) == set(each.replicas) for each in partitions
        )

    async def _topics(self) -> Mapping[str, Any]:
        try:
            return (await asyncio.to_thread(self.admin.list_topics, timeout=METADATA_WITHIN_S)).topics
        except KafkaException:
            return {}

    async def set_topic(self, topic: str, settings: Mapping[str, str]) -> None:
        """Change settings of a topic, such as `max.message.bytes`, and return when all brokers know them."""
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        for future in self.admin.incremental_alter_configs([resource]).values():
            await asyncio.wrap_future(future)
        client = AIOKafkaClient(bootstrap_servers=self.bootstrap())
        await client.bootstrap()

        async def all_know() -> bool:
            known = [await _settings_known_to(client, broker.number, topic) for broker in self.brokers]
            return all(settings.items() <= each.items() for each in known)

        try:
            await until(all_know, what=f"all brokers know the settings of {topic}", every_s=0.05)
        finally:
            await client.close()

    async def delete_topics_of(self, prefix: str) -> None:
        """Delete all topics whose names begin with `prefix`."""
        if names := [name for name in await self._topics() if name.startswith(prefix)]:
            await self.delete_topics(names)

    async def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics and return when no broker has them any more."""
        gone = set(names)
        for future in self.admin.delete_topics(sorted(gone), operation_timeout=METADATA_WITHIN_S).values():
            await asyncio.wrap_future(future)

        async def are_gone() -> bool:
            return not gone & set(await self._topics())

        await until(are_gone, what="the topics are gone", every_s=0.1)


def _quorum_state(broker: KafkaBroker) -> Path:
    return broker.data / "__cluster_metadata-0" / "quorum-state"


async def _settings_known_to(client: AIOKafkaClient, broker: int, topic: str) -> dict[str, str]:
    # Not with `admin`, which asks any broker.
    answer = await client.send(broker, DescribeConfigsRequest([(ResourceType.TOPIC.value, topic, None)], False))
    [resource] = answer.resources
    return {entry[0]: entry[1] for entry in resource[4]}
