"""What clients have written into a topic: records, and by their headers the batches that hold them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer import fetcher

from kb_shared.kafka_connection.batch_header import BatchHeader, find_end, parse_header
from tests.producers.asyncapi import violations


@dataclass(frozen=True, slots=True)
class WrittenRecords:
    batches: list[BatchHeader]
    records: list[Any]

    def violations(self) -> list[str]:
        """Return what the AsyncAPI document does not allow of the records."""
        return [
            f"{record.key.decode()}: {violation}"
            for record in self.records
            for violation in violations(
                record.key.decode(), {name: value.decode() for name, value in record.headers}, record.value
            )
        ]


async def end_offsets(bootstrap: str, topic: str) -> Mapping[Any, int]:
    """Return the end of each partition of a topic."""
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        ends: Mapping[Any, int] = await consumer.end_offsets(await _partitions(consumer, topic))
        return ends


async def written_since(bootstrap: str, begins: Mapping[Any, int]) -> WrittenRecords:
    """Return what stands behind these positions, of aborted transactions as well."""
    written = WrittenRecords([], [])

    def remember(raw: bytes) -> Any:
        written.batches.extend(_headers(raw))
        return read(raw)

    read = fetcher.MemoryRecords
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetcher, "MemoryRecords", remember)
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, max_partition_fetch_bytes=4_000_000) as consumer:
            ends = await consumer.end_offsets(list(begins))
            behind = {partition: offset for partition, offset in begins.items() if ends[partition] > offset}
            consumer.assign(list(behind))
            for partition, offset in behind.items():
                consumer.seek(partition, offset)
            while any([await consumer.position(partition) < ends[partition] for partition in behind]):
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    written.records.extend(records)
    return written


async def _partitions(consumer: Any, topic: str) -> list[Any]:
    await consumer._client.force_metadata_update()
    return [TopicPartition(topic, number) for number in consumer._client.cluster.partitions_for_topic(topic)]


def _headers(raw: bytes) -> Iterator[BatchHeader]:
    begin = 0
    while (end := find_end(raw, begin)) is not None and (header := parse_header(raw, begin)) is not None:
        if not header.is_control:
            yield header
        begin = end
