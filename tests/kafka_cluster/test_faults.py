"""Faults of brokers: nothing is lost, nothing is stuck, and no restart is needed."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from time import monotonic
from typing import Final

import pytest
from aiokafka import TopicPartition

from kb_contracts import topics
from kb_indexer.bootstrap import GROUP_FAN_OUT
from kb_local.service import Service
from kb_local.stack import Stack
from kb_shared.kafka_connection.clients import consumer_client
from tests.e2e.system import QUICK_ON_KAFKA
from tests.kafka_cluster.cluster import KafkaBrokers
from tests.kafka_cluster.loaded_system import LoadedSystem, SharedServers, start_loaded_system
from tests.waiting import until

pytestmark = pytest.mark.kafka_cluster

REPLICAS_THAT_COME_AND_GO = 6
MOST_TO_STOP_S: Final = 55.0
DEFAULT_SESSION: Final = {**QUICK_ON_KAFKA, "KB_KAFKA_SESSION_TIMEOUT_MS": "30000"}
"""The longer the session, the longer a stop waits for running work."""


async def test_a_broker_that_leads_the_events_is_killed(
    loaded: LoadedSystem, brokers: KafkaBrokers, document_events: str
) -> None:
    async with loaded.load():
        leader = await brokers.leader_of(document_events)
        await leader.kill()
        await loaded.until_indexed_more(60)
        await leader.start()
        await loaded.until_indexed_more(20)
    await loaded.assert_consistent()


async def test_the_controller_is_killed(loaded: LoadedSystem, brokers: KafkaBrokers) -> None:
    async with loaded.load():
        controller = await brokers.controller()
        await controller.kill()
        await loaded.until_indexed_more(60)
        await controller.start()
        await loaded.until_indexed_more(20)
    await loaded.assert_consistent()


async def test_all_brokers_are_restarted_one_after_the_other(loaded: LoadedSystem, brokers: KafkaBrokers) -> None:
    async with loaded.load():
        await brokers.rolling_restart(between=lambda: loaded.until_indexed_more(10))
    await loaded.assert_consistent()


async def test_a_broker_freezes_for_longer_than_its_session(loaded: LoadedSystem, brokers: KafkaBrokers) -> None:
    async with loaded.load():
        frozen = await brokers.leader_of(loaded.system.stack.topic_prefix + topics.INDEX_REQUESTS.name)
        await frozen.pause()
        await loaded.until_indexed_more(60)
        frozen.resume()
        await loaded.until_indexed_more(20)
    await loaded.assert_consistent()


async def test_replicas_join_and_leave_all_the_time(loaded: LoadedSystem, brokers: KafkaBrokers) -> None:
    stack = loaded.system.stack
    async with loaded.load():
        for number in range(REPLICAS_THAT_COME_AND_GO):
            joining = f"kb_indexer:{3 + number}"
            await stack.start_service(joining)
            await loaded.until_indexed_more(5)
            assert await stack.stop_service(joining) == 0, "it left in good order"
            del stack.services[joining]
    await loaded.assert_consistent()


async def test_an_indexer_freezes_for_longer_than_its_session(loaded: LoadedSystem, brokers: KafkaBrokers) -> None:
    stack = loaded.system.stack
    async with loaded.load():
        frozen = stack.services["kb_indexer"]
        await frozen.pause()
        # So many only when the other one has its partitions.
        await loaded.until_indexed_more(80)
        committed = await _committed(loaded)
        frozen.resume()
        await loaded.until_indexed_more(20)
        after = await _committed(loaded)
        assert all(after[partition] >= offset for partition, offset in committed.items()), "no offset goes back"
    await loaded.assert_consistent()


@pytest.mark.parametrize(
    ("noticed", "env"), [(False, DEFAULT_SESSION), (True, QUICK_ON_KAFKA)], ids=["before", "after"]
)
async def test_all_services_are_stopped_before_or_after_the_indexers_notice_that_all_brokers_are_frozen(
    shared_servers: SharedServers, tmp_path: Path, noticed: bool, env: Mapping[str, str]
) -> None:
    brokers = shared_servers.brokers.brokers
    title = f"all brokers are frozen and all services are stopped {'later' if noticed else 'at once'}"
    async with start_loaded_system(shared_servers, tmp_path, title, env=env) as loaded:
        stack = loaded.system.stack
        await stack.start_service("kb_reconciler")
        indexers = [stack.services[name] for name in ("kb_indexer", "kb_indexer:2")]
        await asyncio.gather(*(indexer.pause() for indexer in indexers))
        await loaded.publish(400)
        for indexer in indexers:
            indexer.resume()
        # Many more have been fetched, and what follows from them can't be sent any more.
        await loaded.until_fanned_out(20)
        await asyncio.gather(*(broker.pause() for broker in brokers))
        for _ in range(5):
            await loaded.put(loaded.next_event())
        if noticed:
            await until(lambda: _are_unready(indexers), what="no indexer is ready")
        took = await _stop_all(stack)
        loaded.notes.append(f"seconds from SIGTERM to the end: {took}")
        assert max(took.values()) < MOST_TO_STOP_S
        for broker in brokers:
            broker.resume()
        await asyncio.gather(*(service.start() for service in stack.services.values()))
        await loaded.assert_consistent()


async def _are_unready(services: Iterable[Service]) -> bool:
    return not any([await service.is_ready() for service in services])


async def _stop_all(stack: Stack) -> dict[str, float]:
    """SIGTERM all services at once, and return how many seconds each took to end."""
    began, took = monotonic(), {}

    async def stop(name: str) -> None:
        assert await stack.stop_service(name) == 0, f"{name} ended by itself and in good order"
        took[name] = round(monotonic() - began, 1)

    await asyncio.gather(*(stop(name) for name in stack.services))
    return took


async def _committed(loaded: LoadedSystem) -> dict[int, int]:
    stack = loaded.system.stack
    topic, group = (stack.topic_prefix + name for name in (topics.DOCUMENT_EVENTS.name, GROUP_FAN_OUT))
    client = consumer_client(stack.kafka_connection, group_id=group, enable_auto_commit=False)
    await client.start()
    try:
        partitions = range(topics.DOCUMENT_EVENTS.partitions)
        return {n: await client.committed(TopicPartition(topic, n)) or 0 for n in partitions}
    finally:
        await client.stop()
