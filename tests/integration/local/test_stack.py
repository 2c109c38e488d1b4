from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from pymongo import AsyncMongoClient

from kb_contracts.topics import TOPICS
from kb_local import deployment
from kb_local import stack as stack_module
from kb_local.broker import Broker
from kb_local.errors import ServerDied, UnusableServer
from kb_local.mongod import Mongod
from kb_local.ports import NO_TLS
from kb_local.stack import Stack
from kb_local.zygote import Zygote
from tests.conftest import KafkaCluster, RunningMongo
from tests.integration.local.conftest import NO_MODELS, living


@pytest.fixture
async def stack(tmp_path: Path, light_zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stack]:
    """A stack with servers of its own and one dummy service that counts as a producer."""
    monkeypatch.setattr(stack_module, "PRODUCERS", {"kb_dummy"})
    stack = Stack(
        tmp_path / ".kb",
        services=["kb_dummy"],
        env={"KB_DUMMY_COUNTS_TOPICS": "1", "KB_LOG_LEVEL": "WARNING"},
        env_of={"kb_dummy": {"KB_LOG_LEVEL": "ERROR"}, "kb_other": {"KB_DUMMY_EXIT": "1"}},
        models_api_base=NO_MODELS,
        zygote=light_zygote,
    )
    async with stack:
        pids = [server.pid for server in stack.servers]
        yield stack
    assert living(pids) == []


def launched(stack: Stack) -> list[int]:
    return [server.pid for server in stack.servers if server.started_at is not None]


async def describe(url: str) -> dict[str, Any]:
    async with httpx.AsyncClient(trust_env=False, verify=NO_TLS, timeout=30) as client:
        answer: dict[str, Any] = (await client.get(url)).json()
        return answer


async def test_services_answer_at_the_base_url_with_the_settings_of_the_stack(stack: Stack) -> None:
    # The gateway sends all but searches to kb-api, which is left out here.
    async with httpx.AsyncClient(trust_env=False, verify=NO_TLS, timeout=30) as client:
        assert (await client.get(stack.base_url)).status_code == 503
    environment = (await describe(stack.services["kb_dummy"].url))["environment"]
    assert environment["KB_MONGO_URI"] == stack.mongo_uri
    assert environment["KB_KAFKA"] == stack.kafka
    assert environment["KB_KAFKA_IDEMPOTENCE"] == "off"
    assert environment["KB_LOCAL_MODELS_API_BASE"] == NO_MODELS
    assert environment["KB_BOOTSTRAP_ADMIN_KEY"] == stack.api_key


async def test_a_service_is_killed_and_started_with_other_settings_beside_a_second_one(stack: Stack) -> None:
    await stack.kill("kb_dummy")
    again = await stack.start_service("kb_dummy", KB_FAILPOINT="swap.before_commit:2")
    assert (await describe(again.url))["environment"]["KB_FAILPOINT"] == "swap.before_commit:2"
    second = await stack.start_service("kb_dummy:2")
    assert "KB_FAILPOINT" not in (await describe(second.url))["environment"]
    for service in (again, second):
        assert (await describe(service.url))["environment"]["KB_LOG_LEVEL"] == "ERROR", "as set for this service only"
    assert again.log != second.log
    await stack.stop_service("kb_dummy")
    assert not again.running
    assert second.running


async def test_a_restarted_broker_has_its_topics_before_a_producer_runs_and_gets_the_outbox_again(
    stack: Stack,
) -> None:
    async with AsyncMongoClient[dict[str, Any]](stack.mongod_uri) as client:
        await client[stack.database].outbox.insert_one({"sent_at": datetime.now(UTC)})
        await stack.restart_broker()
        (message,) = await client[stack.database].outbox.find().to_list()
    log = stack.services["kb_dummy"].log.read_text().splitlines()
    assert [line for line in log if line.startswith("topics")] == [f"topics at start: {len(TOPICS)}"] * 2
    assert message["sent_at"] is None


async def test_a_start_that_fails_leaves_no_process_and_reports_its_cause(tmp_path: Path, light_zygote: Zygote) -> None:
    stack = Stack(
        tmp_path / ".kb",
        services=["kb_dummy"],
        env={"KB_DUMMY_EXIT": "3"},
        models_api_base=NO_MODELS,
        zygote=light_zygote,
    )
    with pytest.raises(ServerDied, match="kb-dummy ended while it started"):
        await stack.start()
    assert living(launched(stack)) == []


async def test_a_mongodb_with_search_is_used_as_it_is_and_one_without_gets_the_node_in_front(
    tmp_path: Path,
    mongod: Mongod | RunningMongo,
    broker: Broker | KafkaCluster,
    database_name: str,
    topic_prefix: str,
) -> None:
    def over(mongo_uri: str) -> Stack:
        return Stack(
            tmp_path / ".kb",
            services=[],
            mongo_uri=mongo_uri,
            kafka=broker if isinstance(broker, Broker) else broker.bootstrap,
            models_api_base=NO_MODELS,
            database=database_name,
            topic_prefix=topic_prefix,
        )

    async with over(mongod.uri) as plain:
        assert plain.search_nodes is not None
        assert plain.mongod_uri == mongod.uri != plain.mongo_uri
        async with over(plain.mongo_uri) as with_search:
            assert with_search.search_nodes is None
            assert with_search.mongo_uri == plain.mongo_uri


async def test_a_mongodb_that_does_not_answer_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "ANSWERS_WITHIN_MS", 200)
    stack = Stack(tmp_path / ".kb", services=[], mongo_uri="mongodb://127.0.0.1:1/", models_api_base=NO_MODELS)
    with pytest.raises(UnusableServer, match="does not answer"):
        await stack.start()
    assert living(launched(stack)) == []
