import pytest

from kb_local.broker import Broker
from kb_local.python_server import ModelServerProcess, SearchNodeProcess
from kb_local.zygote import Zygote
from tests.chaos.crashes import Servers
from tests.conftest import KafkaCluster, RunningMongo


@pytest.fixture(scope="session")
def servers(
    search_node: RunningMongo | SearchNodeProcess,
    broker: KafkaCluster | Broker,
    model_server: ModelServerProcess,
    zygote: Zygote,
) -> Servers:
    kafka = broker if isinstance(broker, Broker) else broker.bootstrap
    return Servers(search_node.uri, kafka, model_server.api_base, zygote)
