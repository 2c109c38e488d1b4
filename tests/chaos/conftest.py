import pytest

from kb_local.broker import Broker
from kb_local.python_server import ModelServer, SearchNode
from kb_local.zygote import Zygote
from tests.chaos.crashes import Servers
from tests.conftest import KafkaCluster, MongoDeployment


@pytest.fixture(scope="session")
def servers(
    search_node: MongoDeployment | SearchNode,
    broker: KafkaCluster | Broker,
    model_server: ModelServer,
    zygote: Zygote,
) -> Servers:
    kafka = broker if isinstance(broker, Broker) else broker.bootstrap
    return Servers(search_node.uri, kafka, model_server.api_base, zygote)
