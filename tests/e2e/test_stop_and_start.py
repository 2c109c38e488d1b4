"""What a stack has is there again when it is started once more in the same folder."""

from pathlib import Path

from kb_local.broker import Broker
from kb_local.python_server import ModelServerProcess
from kb_local.stack import Stack
from kb_local.zygote import Zygote
from tests.chaos.workload import Upstream, paragraph
from tests.conftest import KafkaCluster
from tests.e2e.system import QUICK, QUICK_ON_KAFKA, system
from tests.kafka_access import OPERATOR, kafka_access
from tests.kafka_cluster.permissions import documented_acls
from tests.kafka_cluster.rights import grant_at


async def test_what_was_indexed_is_found_again_after_a_stop_and_a_start(
    tmp_path: Path, broker: KafkaCluster | Broker, topic_prefix: str, model_server: ModelServerProcess, zygote: Zygote
) -> None:
    # A broker of its own, whose topics are empty at the second start, or a cluster that keeps them.
    kafka = None if isinstance(broker, Broker) else broker.bootstrap
    access = kafka_access()
    if access is not None:
        await grant_at(access.admin.split(","), documented_acls(prefix=topic_prefix))
    stack = Stack(
        tmp_path,
        services=("kb_api", "kb_indexer", "kb_search"),
        env={**(QUICK if kafka is None else QUICK_ON_KAFKA), **(access.settings_of(OPERATOR) if access else {})},
        env_of=access.settings_of_services if access else {},
        kafka=kafka,
        models_api_base=model_server.api_base,
        zygote=zygote,
        topic_prefix=topic_prefix,
    )
    async with stack, system(stack, access=access) as before:
        upstream = Upstream(stack.organization_id)
        await before.create_tags("a")
        kb_id = await before.create_knowledge_base("a")
        await before.until_active(kb_id)
        await before.events.publish(upstream.ocr("kept", [paragraph("kept")], tags=["a"]))
        await before.until_found(kb_id, ["kept"])

    async with stack, system(stack, access=access) as after:
        await after.until_active(kb_id)
        await after.until_found(kb_id, ["kept"])
        await after.events.publish(upstream.ocr("new", [paragraph("new")], tags=["a"]))
        await after.until_found(kb_id, ["kept", "new"])
