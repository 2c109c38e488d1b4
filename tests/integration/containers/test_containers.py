"""What is asked of a Docker engine. The engine is a stub of its API, and its containers are servers of `kb_local`."""

import asyncio
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from testcontainers.core.config import ConnectionMode, testcontainers_config
from testcontainers.core.container import Reaper

from kb_local.broker import Broker
from kb_local.ports import LOOPBACK, free_port
from kb_local.python_server import SearchNodeProcess
from tests import conftest, containers
from tests.backend import ATLAS_LOCAL_IMAGE, KAFKA_IMAGE, SELECTION, Backend
from tests.conftest import KafkaCluster, RunningMongo, kafka_of
from tests.integration.containers.engine import Engine, engine

STARTED: Final = "[2026-01-01 00:00:00,000] INFO [KafkaRaftServer nodeId=1] Kafka Server started (kafka.server)"
ON_MONGODB: Final = "tests/integration/budget/test_spending.py::test_settling_twice_settles_once"
ON_KAFKA: Final = "tests/integration/kafka/test_producer_and_topics.py"
ON_A_SERVER_OF_OURS: Final = "tests/conformance/atlas_search/node/test_delays.py"
TOPICS: Final = "test_topics_are_created_once_however_often_they_are_asked_for"


@pytest.fixture
def ports(search_node: RunningMongo | SearchNodeProcess, broker: KafkaCluster | Broker) -> dict[str, int]:
    if not isinstance(search_node, SearchNodeProcess) or not isinstance(broker, Broker):
        pytest.skip("the containers of the stub are servers of kb_local, which this run does not start")
    return {"mongodb-atlas-local": search_node.port, "apache/kafka": broker.port}


@pytest.fixture
def docker(ports: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    with engine(ports, {"apache/kafka": STARTED}) as fake:
        monkeypatch.setenv("DOCKER_HOST", fake.url)
        monkeypatch.setattr(testcontainers_config, "connection_mode_override", ConnectionMode.docker_host)
        monkeypatch.setattr(testcontainers_config, "sleep_time", 0.02)
        yield fake
        Reaper.delete_instance()


async def test_mongodb_is_a_pinned_image_that_is_used_once_healthy_and_then_removed(
    docker: Engine, ports: dict[str, int]
) -> None:
    async with containers.atlas_local() as uri:
        assert uri == f"mongodb://{LOOPBACK}:{ports['mongodb-atlas-local']}/?directConnection=true"
        container = docker.find_container(ATLAS_LOCAL_IMAGE)
        assert (container.started, container.exposed, container.environment) == (True, ["27017/tcp"], {})
        assert docker.left == [ATLAS_LOCAL_IMAGE]
    assert ATLAS_LOCAL_IMAGE in docker.pulled
    assert docker.left == []
    assert (container.removed_with or {}).get("v") == "True"


async def test_kafka_tells_its_clients_the_port_of_the_host_and_makes_up_no_topics(
    docker: Engine, ports: dict[str, int]
) -> None:
    async with containers.kafka() as bootstrap:
        assert bootstrap == f"{LOOPBACK}:{ports['apache/kafka']}"
        container = docker.find_container(KAFKA_IMAGE)
        assert container.exposed == ["9092/tcp"]
        [(script_path, script)] = container.files.items()
        assert f"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{bootstrap}," in script
        assert script.endswith("exec /etc/kafka/docker/run\n")
        assert script_path in container.asked["Cmd"][-1]
        expected = {
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        }
        assert expected.items() <= container.environment.items()
    assert docker.left == []


async def test_a_run_that_is_killed_leaves_its_containers_to_the_reaper(docker: Engine) -> None:
    async with containers.kafka():
        labels = docker.find_container(KAFKA_IMAGE).asked["Labels"]
        session = "org.testcontainers.session-id"
        assert docker.reaper_heard == [f"label={session}={labels[session]}"]


@pytest.mark.parametrize("health", ["unhealthy", "starting"])
async def test_a_container_that_does_not_become_ready_is_an_error_and_is_removed(
    docker: Engine, health: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker.health = health
    monkeypatch.setattr(containers, "_WITHIN_S", 0)
    with pytest.raises((RuntimeError, TimeoutError), match="health"):
        async with containers.atlas_local():
            pytest.fail("was used before it was healthy")
    assert docker.find_container(ATLAS_LOCAL_IMAGE).started
    assert docker.left == []


async def test_a_broker_that_never_says_it_has_started_is_an_error_and_is_removed(
    docker: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker.logs = {}
    monkeypatch.setattr(containers, "_WITHIN_S", 0)
    with pytest.raises(TimeoutError, match="Kafka Server started"):
        async with containers.kafka():
            pytest.fail("was used before it had started")
    assert docker.left == []


async def run_tests(*arguments: str, **environment: str) -> tuple[int, str]:
    """Run tests in a process of their own; returns its exit status and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments),
        env={**os.environ, "TESTCONTAINERS_CONNECTION_MODE": "docker_host", **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode()


async def test_the_same_suites_run_on_containers_and_what_cannot_is_skipped_with_its_reason(docker: Engine) -> None:
    suites = (ON_MONGODB, f"{ON_KAFKA}::{TOPICS}", ON_A_SERVER_OF_OURS)
    status, printed = await run_tests(*suites, KB_TEST_BACKEND="docker", DOCKER_HOST=docker.url)
    assert status == 0, printed
    assert f"mongodb: a container of {ATLAS_LOCAL_IMAGE}" in printed
    assert f"kafka: a container of {KAFKA_IMAGE}" in printed
    assert re.search(r"^SKIPPED .* in front of a mongod of their own$", printed, re.MULTILINE)
    assert re.search(r"\b2 passed\b", printed)
    started = [each.image for each in docker.containers if "ryuk" not in each.image]
    assert sorted(started) == sorted([ATLAS_LOCAL_IMAGE, KAFKA_IMAGE])
    assert docker.left == []


def test_an_unknown_backend_ends_the_run_before_any_test_with_what_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SELECTION, "podman")
    with pytest.raises(pytest.UsageError, match="KB_TEST_BACKEND must be one of local, docker"):
        conftest.pytest_configure()


async def test_without_an_engine_there_is_no_kafka_and_no_other_server_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"tcp://{LOOPBACK}:{free_port()}")
    with pytest.raises(Exception, match="Error while fetching server API version"):
        async with kafka_of(Backend.from_environment({SELECTION: "docker"}), tmp_path):
            pytest.fail("there was a Kafka")
