"""A consumer in a process of its own, to be killed: notes what it does in a file and takes a random time for it.

`python worker.py BOOTSTRAP TOPIC GROUP JOURNAL kafka|local`
"""

import asyncio
import json
import os
import random
import signal
import sys

from kb_shared import failpoints
from kb_shared.kafka.consumer import Consumer
from kb_shared.kafka.record import OrderingKey, Record
from kb_shared.kafka_connection.connection import KafkaConnection
from kb_shared.observability import logs

MEAN_JOB_S = 0.05
# Kafka takes none that is shorter by default.
SESSION_TIMEOUT_MS = {"kafka": 6_000, "local": 2_000}


class Journal:
    """One line an entry; an append that small is whole or not there, even when other processes write or die."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, record: Record) -> None:
        entry = {
            "key": (record.key or b"").decode(),
            "number": int(record.value or b"0"),
            "partition": record.partition,
            "offset": record.offset,
        }
        os.write(self._file, f"{json.dumps(entry)}\n".encode())


class Jobs:
    """Counts on the values of a key to be 1, 2, 3, ..."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def ordering_key(self, record: Record) -> OrderingKey:
        group, _, key = (record.key or b"").decode().partition("/")
        return OrderingKey(group, "", key)

    async def handle(self, record: Record) -> None:
        await asyncio.sleep(random.expovariate(1 / MEAN_JOB_S))
        self._journal.note(record)


class NoLetters:
    async def publish(self, record: Record, *, reason: str, detail: str) -> None:
        raise AssertionError(reason)


async def run(bootstrap: str, topic: str, group: str, journal: str, broker: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    consumer = Consumer(
        Jobs(Journal(journal)),
        NoLetters(),
        topics=[topic],
        group_id=group,
        connection=KafkaConnection(bootstrap),
        session_timeout_ms=SESSION_TIMEOUT_MS[broker],
        fetch_max_wait_ms=50,
        leave_group=broker == "kafka",
        max_in_flight=8,
    )
    print("ready", flush=True)  # noqa: T201  # what the test waits for
    await consumer.run(stop)


if __name__ == "__main__":
    logs.configure("worker")
    failpoints.arm()
    asyncio.run(run(*sys.argv[1:]))
