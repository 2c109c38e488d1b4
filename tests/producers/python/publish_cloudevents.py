"""Publishes with the CloudEvents SDK of Python over aiokafka: `python publish_cloudevents.py RUN`."""

import asyncio
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from cloudevents.core.bindings import kafka
from cloudevents.core.v1.event import CloudEvent

run: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
convert = kafka.to_binary_event if run["mode"] == "binary" else kafka.to_structured_event


def message_of(record: dict[str, Any]) -> kafka.KafkaMessage:
    attributes = dict(record["event"])
    data = attributes.pop("data")
    attributes["time"] = datetime.fromisoformat(attributes["time"])
    return convert(CloudEvent(attributes, data), key_mapper=lambda _: record["key"].encode())


async def publish(producer: AIOKafkaProducer, records: list[dict[str, Any]]) -> None:
    pending = []
    for message in map(message_of, records):
        headers = list(message.headers.items())
        pending.append(await producer.send(run["topic"], key=message.key, value=message.value, headers=headers))
    await asyncio.gather(*pending)


async def main() -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=run["bootstrap"],
        compression_type=None if run["codec"] == "none" else run["codec"],
        enable_idempotence=True,
        transactional_id=run["transactional_id"],
        linger_ms=50,
    )
    await producer.start()
    try:
        if run["transactional_id"]:
            await producer.begin_transaction()
            await publish(producer, run["aborted"])
            await producer.abort_transaction()
            async with producer.transaction():
                await publish(producer, run["events"])
        else:
            await publish(producer, run["events"])
    finally:
        await producer.stop()


asyncio.run(main())
