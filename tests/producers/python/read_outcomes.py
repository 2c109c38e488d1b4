"""Prints the records of a topic as JSON lines, read with librdkafka: `python read_outcomes.py BOOTSTRAP TOPIC`."""

import json
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

bootstrap, topic = sys.argv[1:]
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        # It never joins the group: it assigns itself all partitions.
        "group.id": "read-outcomes",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
)
partitions = set(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
while partitions:
    message = consumer.poll(30)
    if message is None:
        sys.exit(f"nothing more came of the partitions {sorted(partitions)}")
    if (error := message.error()) is None:
        print(json.dumps({"key": (message.key() or b"").decode(), "event": json.loads(message.value() or b"null")}))
    elif error.code() == KafkaError._PARTITION_EOF:
        partitions.discard(message.partition())
    else:
        sys.exit(str(error))
consumer.close()
