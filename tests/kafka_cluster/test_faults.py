"""Whatever happens to the brokers, nothing is lost, nothing is stuck, and nobody has to restart anything."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kb_local.python_server import ModelServer, SearchNode
from kb_local.zygote import Zygote
from kb_shared.contracts import topics
from tests.conftest import MongoDeployment
from tests.kafka_cluster.busy import REPORTS, Busy, Foundations, busy_system
from tests.kafka_cluster.cluster import KafkaBrokers

pytestmark = pytest.mark.kafka_cluster


@pytest.fixture
def foundations(
    brokers: KafkaBrokers, search_node: MongoDeployment | SearchNode, model_server: ModelServer, zygote: Zygote
) -> Foundations:
    return Foundations(brokers, search_node.uri, model_server.api_base, zygote)


@pytest.fixture
async def busy(request: pytest.FixtureRequest, foundations: Foundations, tmp_path: Path) -> AsyncIterator[Busy]:
    title = request.node.name.removeprefix("test_").replace("_", " ")
    async with busy_system(foundations, tmp_path, title) as opened:
        yield opened


async def assert_right(busy: Busy, brokers: KafkaBrokers) -> None:
    await brokers.heal()
    problems = await busy.problems()
    REPORTS.append(f"    verdict: {problems or 'nothing lost, nothing wrong, nothing restarted'}")
    assert problems == []


async def test_a_broker_that_leads_the_events_is_killed(busy: Busy, brokers: KafkaBrokers) -> None:
    async with busy.load():
        leader = await brokers.leader_of(busy.system.stack.topic_prefix + topics.DOCUMENT_EVENTS.name)
        await leader.kill()
        await busy.until_indexed_more(60)
        await leader.start()
        await busy.until_indexed_more(20)
    await assert_right(busy, brokers)


async def test_the_controller_is_killed(busy: Busy, brokers: KafkaBrokers) -> None:
    async with busy.load():
        controller = await brokers.controller()
        await controller.kill()
        await busy.until_indexed_more(60)
        await controller.start()
        await busy.until_indexed_more(20)
    await assert_right(busy, brokers)


async def test_all_brokers_are_restarted_one_after_the_other(busy: Busy, brokers: KafkaBrokers) -> None:
    async with busy.load():
        await brokers.rolling_restart(between=lambda: busy.until_indexed_more(10))
    await assert_right(busy, brokers)


async def test_a_broker_freezes_for_longer_than_its_session(busy: Busy, brokers: KafkaBrokers) -> None:
    async with busy.load():
        frozen = await brokers.leader_of(busy.system.stack.topic_prefix + topics.INDEX_REQUESTS.name)
        await frozen.pause()
        await busy.until_indexed_more(60)
        frozen.resume()
        await busy.until_indexed_more(20)
    await assert_right(busy, brokers)
