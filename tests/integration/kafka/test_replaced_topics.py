from aiokafka.admin import AIOKafkaAdminClient

from kb_shared.kafka.topic_checks import TopicsUnfit
from kb_shared.kafka.topics import check_topics
from kb_shared.observability.metrics import CONSUMER_REPLACED_LOGS
from tests.integration.kafka.support import BRIEF_SESSION, EVENTS, Letters, Recorder, Stream, running
from tests.waiting import until


async def delete_topic(stream: Stream) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=stream.bootstrap)
    await admin.start()
    try:
        await admin.delete_topics([stream.topic])
    finally:
        await admin.close()

    async def is_gone() -> bool:
        try:
            await check_topics(stream.connection, [EVENTS], prefix=stream.prefix)
        except TopicsUnfit:
            return True
        return False

    await until(is_gone, what="no broker knows the topic any more")


async def test_a_topic_that_is_made_again_and_is_longer_than_before_loses_nothing(stream: Stream) -> None:
    await stream.publish([(f"a/{n}", f"before {n}") for n in range(20)])
    handler = Recorder()
    async with running(stream.consumer(handler, Letters(), position_check_interval_s=0.1, **BRIEF_SESSION)):
        await until(lambda: len(handler.handled) == 20)
        await stream.until_committed(20)
        await delete_topic(stream)
        await stream.create()
        after = [f"after {n}" for n in range(80)]
        await stream.publish([(f"a/{n}", value) for n, value in enumerate(after)])
        await until(lambda: set(handler.handled) >= set(after))
        await stream.until_committed(80)
    replaced = CONSUMER_REPLACED_LOGS.labels(topic=stream.topic, group=stream.group)._value.get()
    # Kafka forgets what was committed to a topic that is deleted.
    assert replaced > 0 or stream.on_kafka
