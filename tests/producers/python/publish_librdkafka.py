"""Publishes with librdkafka: `python publish_librdkafka.py RUN`."""

import json
import sys
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

run: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
settings: dict[str, Any] = {
    "bootstrap.servers": run["bootstrap"],
    "compression.type": run["codec"],
    "enable.idempotence": True,
    # The default is 1,000,000 bytes for the whole record.
    "message.max.bytes": 1_048_576,
    "linger.ms": 50,
}
if run["transactional_id"]:
    settings["transactional.id"] = run["transactional_id"]
producer = Producer(settings)
errors: list[str] = []


def publish(records: list[dict[str, Any]]) -> None:
    for record in records:
        producer.produce(
            run["topic"],
            key=record["key"],
            value=json.dumps(record["event"], ensure_ascii=False).encode(),
            headers={"content-type": "application/cloudevents+json"},
            on_delivery=lambda error, _: errors.append(str(error)) if error else None,
        )
    producer.flush()


if run["transactional_id"]:
    producer.init_transactions()
    producer.begin_transaction()
    publish(run["aborted"])
    producer.abort_transaction()
    producer.begin_transaction()
    publish(run["events"])
    producer.commit_transaction()
else:
    publish(run["events"])
sys.exit("\n".join(errors) or 0)
