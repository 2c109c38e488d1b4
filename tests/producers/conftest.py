"""One system on Apache Kafka, to which all clients publish."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from kb_contracts import topics
from kb_local.broker import Broker
from kb_local.python_server import ModelServerProcess, SearchNodeProcess
from kb_local.stack import Stack
from kb_local.zygote import Zygote
from tests.conftest import KafkaCluster, RunningMongo
from tests.e2e.system import QUICK_ON_KAFKA, SystemUnderTest, system
from tests.producers.clients import missing_tools
from tests.producers.table import INDEXED


@pytest.fixture(scope="session")
async def receiver(
    search_node: RunningMongo | SearchNodeProcess,
    broker: KafkaCluster | Broker,
    model_server: ModelServerProcess,
    zygote: Zygote,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[SystemUnderTest]:
    """A system with one knowledge base, of the tag `INDEXED`."""
    if isinstance(broker, Broker):
        pytest.skip("the local broker has neither idempotent producers nor transactions: `make test-producers`")
    if missing := missing_tools():
        pytest.skip(f"not installed: {', '.join(missing)}")
    name = f"producers_{uuid4().hex[:12]}"
    async with (
        Stack(
            tmp_path_factory.mktemp("producers"),
            services=("kb_api", "kb_indexer"),
            env=QUICK_ON_KAFKA,
            mongo_uri=search_node.uri,
            kafka=broker.bootstrap,
            models_api_base=model_server.api_base,
            zygote=zygote,
            database=name,
            topic_prefix=f"{name}.",
        ) as stack,
        system(stack) as opened,
    ):
        await opened.create_tags(INDEXED)
        await opened.until_active(await opened.create_knowledge_base(INDEXED))
        yield opened
        await opened.database.client.drop_database(name)


@pytest.fixture
def document_events(receiver: SystemUnderTest) -> str:
    """The name of the topic."""
    return receiver.stack.topic_prefix + topics.DOCUMENT_EVENTS.name
