"""Makes what a consumer fetches readable for the client library, before it sees it.

The library ends at a batch that it can't read, says neither partition nor offset, and fetches the same batch again for
ever. Here such a batch is fetched again a few times, and is then replaced by a readable one: its first offset has a
record with the bytes that can't be read and the mark `find_unreadable`, and the others have none.
"""

import json
import secrets
import struct
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import structlog
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from kb_shared.kafka_connection.batch_header import (
    FORMAT,
    OLD_FORMATS,
    BatchHeader,
    find_end,
    has_checksum,
    parse_header,
)
from kb_shared.kafka_connection.batch_records import BatchRecord
from kb_shared.kafka_connection.known_batches import KnownBatch, KnownBatches
from kb_shared.kafka_connection.record_batches import Batch, DamagedRecords, UnreadableBatch, read_batch

MAX_RESPONSE_BYTES: Final = 32 * 1024 * 1024
"""Decompressed bytes after which the rest of a response is left out. It is fetched again."""
MAX_KNOWN_BYTES: Final = 16 * 1024 * 1024
"""Decompressed bytes of batches of all partitions that are kept, in case they are fetched again."""
# A name that no producer can know.
_MARK: Final = f"unreadable-{secrets.token_hex(16)}"
_ANY_BATCH_BYTES: Final = 2**30
_LAST_OFFSET_AT: Final = 23
_MAX_DELTA: Final = 2**31

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class UnreadableRecords:
    """Records that can't be read. Their bytes are the value of the record with this mark."""

    detail: str
    last_offset: int


class _Place(NamedTuple):
    topic: str
    partition: int


class _PartitionAnswer(NamedTuple):
    """Answer of a broker for one partition."""

    place: _Place
    offset: int
    """Offset from which was fetched."""
    end: int
    """Offset after the last record of the partition (high watermark)."""
    data: bytes


def find_unreadable(headers: Iterable[tuple[str, bytes | None]]) -> UnreadableRecords | None:
    """Return what is wrong with the record with these headers; None if it is one that a producer has written."""
    mark = next((value for name, value in headers if name == _MARK), None)
    return None if mark is None else UnreadableRecords(**json.loads(mark))


class FetchedBatches:
    """Makes the answers to the fetches of one client readable.

    Args:
        tries: fetches of a batch that is not as it was written before it is given up.
    """

    def __init__(self, *, tries: int) -> None:
        self._tries = tries
        self._failed: dict[_Place, tuple[int, int]] = {}
        """By partition, the offset at which the last fetch failed, and how often."""
        self._known = KnownBatches(at_most_bytes=MAX_KNOWN_BYTES)

    def make_readable(self, request: Any, response: Any) -> None:
        """Replace what the client library could not read in the response."""
        offsets = {_Place(topic, each[0]): each[1] for topic, partitions in request.topics for each in partitions}
        left = MAX_RESPONSE_BYTES
        topics = []
        for topic, partitions in response.topics:
            answers = []
            for partition, error, end, *others, data in partitions:
                place = _Place(topic, partition)
                readable = b""
                if data and place in offsets and left > 0:
                    readable = self._read(_PartitionAnswer(place, offsets[place], end, bytes(data)), at_most_bytes=left)
                    left -= len(readable)
                answers.append((partition, error, end, *others, readable))
            topics.append((topic, answers))
        response.topics = topics

    def _read(self, fetched: _PartitionAnswer, *, at_most_bytes: int) -> bytes:
        """Return batches that the client library can read, up to one that can't be read as it came."""
        readable: list[bytes] = []
        size = 0
        error = None
        try:
            for batch in _read_batches(fetched, self._known):
                readable.append(batch)
                size += len(batch)
                if size >= at_most_bytes:
                    break
        except UnreadableBatch as unreadable:
            error = unreadable
        except Exception as bug:
            # No batch may stop its partition.
            log.exception("batch.not_read", **fetched.place._asdict(), offset=fetched.offset)
            error = UnreadableBatch(f"reading failed with {type(bug).__name__}", is_as_written=True)
        if error is not None and not readable:
            return self._give_up(fetched, error)
        # What can't be read behind others is left for the next fetch; brokers also cut the last batch of an answer.
        self._failed.pop(fetched.place, None)
        return b"".join(readable)

    def _give_up(self, fetched: _PartitionAnswer, error: UnreadableBatch) -> bytes:
        """Return nothing, so that it is fetched again, or after enough tries what replaces the first batch."""
        offset, tries = self._failed.get(fetched.place, (-1, 0))
        tries = tries + 1 if offset == fetched.offset else 1
        self._failed[fetched.place] = fetched.offset, tries
        if tries <= self._tries:
            log.warning(
                "batch.unreadable", **fetched.place._asdict(), offset=fetched.offset, tries=tries, detail=str(error)
            )
        if tries < self._tries and not error.is_as_written:
            return b""
        return _replace_first(fetched, error)


def _read_batches(fetched: _PartitionAnswer, known: KnownBatches) -> Iterator[bytes]:
    """Yield what the client library can read of each batch.

    Raises:
        UnreadableBatch: the next one can't be read.
    """
    position, start = fetched.offset, 0
    known.forget_before(fetched.place, position)
    while start < len(fetched.data):
        end = find_end(fetched.data, start)
        if end is None:
            raise UnreadableBatch("the batch is longer than what was fetched", is_as_written=False)
        raw = fetched.data[start:end]
        batch = known.find(fetched.place, raw) or read_batch(raw)
        _check_place(batch, position, fetched.end)
        if _overlaps_next(batch, position, data=fetched.data, end=end):
            raise UnreadableBatch("the next batch begins among the offsets of the batch", is_as_written=False)
        if isinstance(batch, Batch):
            readable = _encode(batch, position)
            if readable is batch.plain:
                known.keep(fetched.place, raw, KnownBatch(batch.base_offset, batch.last_offset, readable))
            yield readable
        else:
            yield batch.plain
        position, start = batch.last_offset + 1, end


def _check_place(batch: Batch | KnownBatch, position: int, end: int) -> None:
    """Refuse a batch with offsets that it can't have at this place: the checksum does not cover them."""
    if (
        not 0 <= batch.base_offset <= batch.last_offset
        or batch.last_offset < position
        or batch.last_offset >= end > position
    ):
        detail = (
            f"the batch has offsets from {batch.base_offset} to {batch.last_offset}, and the partition ends at {end}"
        )
        raise UnreadableBatch(detail, is_as_written=False)


def _overlaps_next(batch: Batch | KnownBatch | BatchHeader, position: int, *, data: bytes, end: int) -> bool:
    """Return whether the first offset of a batch, which the checksum does not cover, is that of a later one.

    If the batch begins where the one before it ends, the offset of the next one is wrong.
    """
    if batch.base_offset == position:
        return False
    following = _parse_intact_header(data, end)
    return following is not None and position < following.base_offset <= batch.last_offset


def _encode(batch: Batch, position: int) -> bytes:
    """Return what the client library reads of a batch from `position` on.

    Raises:
        UnreadableBatch: records have offsets that they can't have.
    """
    placed = [(item, offset) for item, offset in _place(batch) if offset >= position]
    if batch.plain is not None and batch.items:
        return batch.plain
    if not placed:
        # Also what compaction has left of the mark of a transaction, which the library would not read.
        return _build(None, max(position, batch.base_offset), last_offset=batch.last_offset, header=None)
    following = [*(offset for _, offset in placed[1:]), batch.last_offset + 1]
    return b"".join(
        _build(_to_record(item, offset, next_offset - 1), offset, last_offset=next_offset - 1, header=batch.header)
        for (item, offset), next_offset in zip(placed, following, strict=True)
    )


def _place(batch: Batch) -> Iterator[tuple[BatchRecord | DamagedRecords, int]]:
    """Yield each item with its offset. Bytes for which the batch has no offset left are not a record of it."""
    free = batch.base_offset
    for item in batch.items:
        offset = item.offset
        if isinstance(item, DamagedRecords) and (offset is None or not free <= offset <= batch.last_offset):
            if free > batch.last_offset:
                return
            offset = free
        if offset is None or not free <= offset <= batch.last_offset:
            raise UnreadableBatch("the offsets of the records do not rise within the batch", is_as_written=True)
        yield item, offset
        free = offset + 1


def _to_record(item: BatchRecord | DamagedRecords, offset: int, last_offset: int) -> BatchRecord:
    if isinstance(item, BatchRecord):
        return item
    return _mark(
        item.body,
        item.detail,
        offset=offset,
        last_offset=last_offset,
        count=item.count,
        timestamp_ms=item.header.max_timestamp_ms,
    )


def _replace_first(fetched: _PartitionAnswer, error: UnreadableBatch) -> bytes:
    """Return a batch that takes the place of the first one, which can't be read."""
    raw = fetched.data[: find_end(fetched.data, 0)]
    header = _parse_intact_header(raw, 0)
    if header is not None and (
        not fetched.offset <= header.last_offset < fetched.end
        or _overlaps_next(header, fetched.offset, data=fetched.data, end=len(raw))
    ):
        header = None
    first = fetched.offset if header is None else max(fetched.offset, header.base_offset)
    last = _find_last_offset(fetched) if header is None else header.last_offset
    record = _mark(
        raw,
        str(error),
        offset=first,
        last_offset=last,
        count=None if header is None else header.records,
        timestamp_ms=-1 if header is None else header.max_timestamp_ms,
    )
    return _build(record, first, last_offset=last, header=None if header is None or header.is_control else header)


def _find_last_offset(fetched: _PartitionAnswer) -> int:
    """Return the last offset of a first batch whose header is damaged, so that no record of another one is skipped."""
    first = fetched.offset
    end = find_end(fetched.data, 0)
    following = None if end is None else _parse_intact_header(fetched.data, end)
    if following is not None and first < following.base_offset < min(fetched.end, first + _MAX_DELTA):
        return following.base_offset - 1
    damaged = parse_header(fetched.data)
    if damaged is None or damaged.magic in OLD_FORMATS or damaged.base_offset > first:
        return first
    # Of two numbers that say the same, one may be damaged.
    last = damaged.base_offset + min(damaged.last_offset_delta, damaged.records - 1)
    return last if first <= last < fetched.end else first


def _parse_intact_header(data: bytes, start: int) -> BatchHeader | None:
    """Return the header of a batch that has its checksum; None if it has not, or has another format."""
    header = parse_header(data, start)
    if header is None or header.magic != FORMAT or (end := find_end(data, start)) is None:
        return None
    return header if has_checksum(data[start:end], header) else None


def _mark(
    body: bytes, detail: str, *, offset: int, last_offset: int, count: int | None, timestamp_ms: int
) -> BatchRecord:
    records = "" if count is None else f", {count} {'record' if count == 1 else 'records'}"
    unreadable = UnreadableRecords(f"{detail}; offsets {offset} to {last_offset}{records}", last_offset)
    return BatchRecord(offset, timestamp_ms, None, body, ((_MARK, json.dumps(asdict(unreadable)).encode()),))


def _build(record: BatchRecord | None, base_offset: int, *, last_offset: int, header: BatchHeader | None) -> bytes:
    """Build a batch of one record or none, in the transaction that `header` names.

    Its checksum is not set, because the library does not check it any more.
    """
    builder = DefaultRecordBatchBuilder(
        magic=FORMAT,
        compression_type=0,
        is_transactional=header is not None and header.is_transactional,
        producer_id=-1 if header is None else header.producer_id,
        producer_epoch=-1 if header is None else header.producer_epoch,
        base_sequence=-1 if header is None else header.base_sequence,
        batch_size=_ANY_BATCH_BYTES,
    )
    timestamp_ms = -1
    if record is not None:
        timestamp_ms = record.timestamp_ms
        builder.append(0, timestamp=timestamp_ms, key=record.key, value=record.value, headers=list(record.headers))
    batch = builder.build()
    struct.pack_into(">q", batch, 0, base_offset)
    # The library takes -1 for a timestamp that is not set yet.
    struct.pack_into(">iqq", batch, _LAST_OFFSET_AT, last_offset - base_offset, timestamp_ms, timestamp_ms)
    return bytes(batch)
