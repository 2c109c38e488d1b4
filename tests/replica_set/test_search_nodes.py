"""Search goes on whichever member is the primary."""

from typing import Any

from pymongo import AsyncMongoClient

from kb_local.replica_set import ReplicaSet
from kb_local.search_nodes import SearchNodes
from tests.waiting import until


async def test_a_driver_that_discovers_the_replica_set_finds_its_nodes(
    nodes: SearchNodes, replica_set: ReplicaSet
) -> None:
    own = {("127.0.0.1", node.port) for node in nodes.nodes}
    async with AsyncMongoClient[dict[str, Any]](nodes.uri.split(",")[0] + "/?replicaSet=rs0") as client:
        await client.admin.command("ping")
        await until(lambda: client.nodes == own, what="all nodes are discovered")
        await replica_set.step_down()
        await client.admin.command("ping")
        assert client.nodes == own
