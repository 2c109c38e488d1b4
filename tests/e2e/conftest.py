from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final
from uuid import uuid4

import pytest

from kb_local.broker import Broker
from kb_local.python_server import ModelServerProcess, SearchNodeProcess
from kb_local.stack import Stack
from kb_local.zygote import Zygote
from tests.chaos.oracle import Oracle
from tests.chaos.workload import Upstream
from tests.conftest import KafkaCluster, RunningMongo
from tests.e2e.running_system import RunningSystem
from tests.e2e.system import CHUNK_SIZE, MODEL, QUICK, system
from tests.kafka_access import OPERATOR, kafka_access
from tests.kafka_cluster.permissions import documented_acls
from tests.kafka_cluster.rights import grant_at
from tests.span_receiver import SpanReceiver, exporting_to, receiving_spans

KNOWLEDGE_SERVICES: Final = ("kb_knowledge", "kb_knowledge.runner")

pytest.register_assert_rewrite("tests.e2e.operations")

UNHURRIED = {
    **QUICK,
    # The receivers of webhooks are on this machine.
    "KB_ALLOW_PRIVATE_ADDRESSES": "true",
    "KB_JOB_LEASE_S": "30",
    "KB_KAFKA_SESSION_TIMEOUT_MS": "15000",
    "KB_MAX_KNOWLEDGE_BASES": "1000",
    "KB_METRICS_CLEAN_INTERVAL_S": "0.5",
}
"""Nothing is killed here: a process that stalls for a moment keeps what it works on."""


ENTRIES_LIKE_THE_ORACLES: Final = {
    "KB_EMBEDDING_MODEL": MODEL,
    "KB_DEFAULT_CHUNK_SIZE": str(CHUNK_SIZE),
    "KB_DEFAULT_CHUNK_OVERLAP": "0",
}
"""Settings by which the knowledge bases of entries have chunks and vectors as readers of the oracle expect them."""


def _settings_of_services(given: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, str]]:
    knowledge = {name: {**given.get(name, {}), **ENTRIES_LIKE_THE_ORACLES} for name in KNOWLEDGE_SERVICES}
    return {**given, **knowledge}


@pytest.fixture(scope="package")
def span_receiver() -> Iterator[SpanReceiver]:
    """The collector to which the services of `running` export their spans."""
    with receiving_spans() as receiver:
        yield receiver


@pytest.fixture(scope="package")
async def running(
    search_node: RunningMongo | SearchNodeProcess,
    broker: KafkaCluster | Broker,
    model_server: ModelServerProcess,
    zygote: Zygote,
    *,
    span_receiver: SpanReceiver,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[RunningSystem]:
    """All services, for all tests of this folder: each has its own documents, tags and KBs."""
    name = f"e2e_{uuid4().hex[:12]}"
    access = kafka_access()
    if access is not None:
        await grant_at(access.admin.split(","), documented_acls(prefix=f"{name}."))
    async with (
        Stack(
            tmp_path_factory.mktemp("e2e"),
            env={**UNHURRIED, **exporting_to(span_receiver), **(access.settings_of(OPERATOR) if access else {})},
            env_of=_settings_of_services(access.settings_of_services if access else {}),
            mongo_uri=search_node.uri,
            kafka=broker if isinstance(broker, Broker) else broker.bootstrap,
            models_api_base=model_server.api_base,
            zygote=zygote,
            database=name,
            topic_prefix=f"{name}.",
        ) as stack,
        system(stack, access=access) as opened,
    ):
        yield RunningSystem(opened, Oracle(), Upstream(stack.organization_id))
        await opened.database.client.drop_database(name)
