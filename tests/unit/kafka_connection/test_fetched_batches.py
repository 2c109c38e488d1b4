"""What a consumer fetches is readable for the client library, and nothing is skipped without a word."""

import gzip
import random
import struct
import tracemalloc
import zlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.codec import zstd_encode
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition
from structlog.testing import capture_logs

from kb_shared.kafka.record import Record
from kb_shared.kafka_connection import batch_records, record_batches
from kb_shared.kafka_connection.fetched_batches import FetchedBatches, find_unreadable
from kb_shared.kafka_connection.record_batches import (
    Batch,
    DamagedRecords,
    UnreadableBatch,
    read_all_records,
    read_batch,
)
from tests.record_batches import (
    COUNT_AT,
    CRC_AT,
    DAMAGES,
    DELTA_AT,
    HEADER_BYTES,
    LENGTH_AT,
    MAGIC_AT,
    Rec,
    build_batch,
    flip,
    set_codec,
    set_int,
    varint,
    with_checksum,
    with_length,
)

END = 1_000
TEXT = b"the same words again and again " * 20


class PartitionLog:
    """Log of one partition with a consumer of the client library."""

    def __init__(
        self, *batches: bytes, tries: int = 3, end: int = END, aborted: Sequence[tuple[int, int]] = ()
    ) -> None:
        self.batches = list(batches)
        self.end = end
        self.aborted = list(aborted)
        self.fetched = FetchedBatches(tries=tries)
        self.fetches = 0
        self.position = 0

    def fetch(self) -> bytes:
        """Return what the client library sees of the batches from the position on."""
        data = b"".join(batch for batch in self.batches if self._last_offset(batch) >= self.position)
        request = SimpleNamespace(topics=[("t", [(0, self.position, 2**20)])])
        response: Any = SimpleNamespace(topics=[("t", [(0, 0, self.end, self.end, 0, self.aborted, data)])])
        self.fetches += 1
        self.fetched.make_readable(request, response)
        readable: bytes = response.topics[0][1][0][-1]
        return readable

    def read_all(self, *, at_most_fetches: int = 60) -> list[Any]:
        """Read as the client library does, until there is nothing more."""
        records: list[Any] = []
        for _ in range(at_most_fetches):
            before = self.position
            partition = PartitionRecords(
                TopicPartition("t", 0),
                MemoryRecords(self.fetch()),
                self.aborted,
                self.position,
                None,
                None,
                False,
                READ_COMMITTED,
            )
            records += list(partition)
            self.position = partition.next_fetch_offset
            assert self.position >= before, "a position never goes back"
            if not any(self._last_offset(batch) >= self.position for batch in self.batches):
                return records
        raise AssertionError(f"the position stays at {self.position}")

    @staticmethod
    def _last_offset(batch: bytes) -> int:
        """Return what a broker knows from its index, whatever became of the batch."""
        return LAST_OFFSETS.get(id(batch), -1)


LAST_OFFSETS: dict[int, int] = {}


def stored(batch: bytes | bytearray, *, last_offset: int) -> bytes:
    """Note the last offset of a batch for the broker."""
    kept = bytes(batch)
    LAST_OFFSETS[id(kept)] = last_offset
    return kept


def good(base_offset: int, *values: bytes, codec: str = "none") -> bytes:
    records = [Rec(value=value) for value in values]
    return stored(build_batch(records, base_offset=base_offset, codec=codec), last_offset=base_offset + len(values) - 1)


def values(records: Sequence[Any]) -> list[bytes | None]:
    """Return the values of records, None for bytes that can't be read."""
    return [None if find_unreadable(record.headers) else record.value for record in records]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_each_codec_come_as_they_were_written(codec: str) -> None:
    headers = [("traceparent", None), ("ü", b"\xff"), ("", b""), ("x", b"1"), ("x", b"2")]
    written = [
        Rec(b"\xff\x00", TEXT, headers, timestamp_ms=0),
        Rec(None, None, (), timestamp_ms=-1),
        Rec(b"", b"", [(f"h{n}", None) for n in range(1_000)], timestamp_ms=2**62),
    ]
    batch = stored(build_batch(written, codec=codec, base_offset=7), last_offset=9)
    records = PartitionLog(batch).read_all()
    assert [(each.offset, each.timestamp, each.key, each.value) for each in records] == [
        (7 + n, each.timestamp_ms, each.key, each.value) for n, each in enumerate(written)
    ]
    assert [list(each.headers) for each in records] == [list(each.headers) for each in written]


def test_a_header_name_that_is_not_utf8_costs_no_record() -> None:
    batch = build_batch([Rec(value=b"1", headers=[("name", b"x")]), Rec(value=b"2")], base_offset=3)
    batch[batch.index(b"name") + 1] = 0xFE
    [first, second] = PartitionLog(stored(with_checksum(batch), last_offset=4)).read_all()
    assert (first.offset, first.value, first.headers) == (3, b"1", (("n\\xfeme", b"x"),))
    assert (second.offset, second.value) == (4, b"2")


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda batch: flip(batch, CRC_AT), "the checksum (CRC) of the batch is wrong"),
        (lambda batch: set_codec(batch, 5), "codec 5 is unknown; known are none, gzip, snappy, lz4, zstd"),
        (lambda batch: set_codec(batch, 4), "zstd data can't be decompressed"),
        (lambda batch: bytes(batch[:MAGIC_AT]) + b"\x07" + bytes(batch[MAGIC_AT + 1 :]), "in format 7 is unknown"),
    ],
)
def test_a_batch_that_can_not_be_read_becomes_one_record_and_the_others_are_read(damage: Any, why: str) -> None:
    damaged = stored(damage(build_batch([Rec(value=b"lost")] * 3, base_offset=12)), last_offset=14)
    log = PartitionLog(good(10, b"a", b"b"), damaged, good(15, b"c"))
    records = log.read_all()
    assert values(records) == [b"a", b"b", None, b"c"]
    assert [record.offset for record in records] == [10, 11, 12, 15]
    unreadable = find_unreadable(records[2].headers)
    assert unreadable is not None
    assert why in unreadable.detail
    assert "offsets 12 to 14" in unreadable.detail
    assert (unreadable.last_offset, records[2].key, records[2].value) == (14, None, damaged)


@pytest.mark.parametrize("tries", [1, 3, 5])
def test_only_what_is_not_as_it_was_written_is_fetched_again_as_often_as_is_set(tries: int) -> None:
    damaged = stored(flip(build_batch([Rec()]), CRC_AT), last_offset=0)
    nonsense = stored(set_codec(build_batch([Rec()], base_offset=1), 6), last_offset=1)
    log = PartitionLog(damaged, nonsense, tries=tries)
    assert values(log.read_all()) == [None, None]
    assert log.fetches == tries + 1
    log.position = 0
    # As after a pause, which discards what was fetched: it is known by then.
    assert values(log.read_all()) == [None, None]


def test_what_was_damaged_on_the_way_is_read_at_the_next_fetch() -> None:
    batch = good(0, b"a")
    log = PartitionLog(stored(flip(bytearray(batch), CRC_AT), last_offset=0))
    assert log.fetch() == b""
    log.batches = [batch, good(1, b"b")]
    assert values(log.read_all()) == [b"a", b"b"]
    log.batches.append(stored(flip(build_batch([Rec()], base_offset=2), CRC_AT), last_offset=2))
    log.fetches = 0
    assert values(log.read_all()) == [None]
    assert log.fetches == 3, "a new batch has all its tries"


def test_of_a_batch_with_one_damaged_record_the_others_are_read_and_its_bytes_alone_are_kept() -> None:
    batch = build_batch([Rec(value=b"1"), Rec(key=b"key2", value=b"2"), Rec(value=b"3")], base_offset=20, codec="none")
    at = batch.index(b"key2") - 1
    batch[at] = 0x7F  # a key of -64 bytes
    log = PartitionLog(stored(with_checksum(batch), last_offset=22))
    records = log.read_all()
    assert values(records) == [b"1", None, b"3"]
    assert [record.offset for record in records] == [20, 21, 22]
    unreadable = find_unreadable(records[1].headers)
    assert unreadable is not None
    assert (unreadable.detail, unreadable.last_offset) == (
        "the lengths within a record do not fit; offsets 21 to 21, 1 record",
        21,
    )
    assert b"key2" in records[1].value
    assert len(records[1].value) < len(batch)
    with pytest.raises(UnreadableBatch, match="the lengths within a record do not fit"):
        read_all_records(records[1].value)


def test_records_that_can_not_be_read_one_after_the_other_are_kept_together() -> None:
    batch = build_batch([Rec(key=b"k%d" % n, value=b"v") for n in range(5)], base_offset=20)
    for key in (b"k1", b"k2", b"k4"):
        batch[batch.index(key) - 1] = 0x7F
    records = PartitionLog(stored(with_checksum(batch), last_offset=24)).read_all()
    assert values(records) == [b"v", None, b"v", None]
    details = [found.detail for record in records if (found := find_unreadable(record.headers))]
    assert [detail.partition(";")[2] for detail in details] == [
        " offsets 21 to 22, 2 records",
        " offsets 24 to 24, 1 record",
    ]


@pytest.mark.parametrize("count", [0, 1, 2, 9, 2**31 - 1, -1])
def test_a_wrong_number_of_records_costs_none(count: int) -> None:
    batch = set_int(build_batch([Rec(value=b"1"), Rec(value=b"2"), Rec(value=b"3")]), COUNT_AT, count)
    assert values(PartitionLog(stored(batch, last_offset=2), good(3, b"4")).read_all()) == [b"1", b"2", b"3", b"4"]


def test_records_that_a_batch_names_and_does_not_have_are_missed() -> None:
    batch = build_batch([Rec(value=b"1"), Rec(value=b"2"), Rec(value=b"3")])
    del batch[HEADER_BYTES + (len(batch) - HEADER_BYTES) // 3 :]
    records = PartitionLog(stored(with_checksum(with_length(batch)), last_offset=2), good(3, b"a")).read_all()
    assert values(records) == [b"1", None, b"a"]
    assert "the batch names 3 records and has 1; offsets 1 to 2" in str(find_unreadable(records[1].headers))


def test_a_damaged_batch_behind_which_the_answer_ends_takes_no_other_with_it() -> None:
    damaged = flip(build_batch([Rec(value=b"lost")] * 3), CRC_AT)
    log = PartitionLog(stored(damaged, last_offset=2), end=4)
    for _ in range(3):
        readable = log.fetch()
    [record] = PartitionRecords(
        TopicPartition("t", 0), MemoryRecords(readable), [], 0, None, None, False, READ_COMMITTED
    )
    unreadable = find_unreadable(record.headers)
    assert unreadable is not None
    assert unreadable.last_offset == 2


@pytest.mark.parametrize(("at", "number"), [(DELTA_AT, 73), (COUNT_AT, 74), (DELTA_AT, 1), (COUNT_AT, 2)])
def test_one_damaged_number_behind_which_the_answer_ends_takes_no_record_with_it(at: int, number: int) -> None:
    damaged = build_batch([Rec(value=b"lost")] * 10)
    struct.pack_into(">i", damaged, at, number)
    behind = good(10, *[b"a"] * 90)
    log = PartitionLog(stored(damaged, last_offset=9), behind[:-5])
    for _ in range(3):
        readable = log.fetch()
    [record] = PartitionRecords(
        TopicPartition("t", 0), MemoryRecords(readable), [], 0, None, None, False, READ_COMMITTED
    )
    assert (unreadable := find_unreadable(record.headers)) is not None
    assert unreadable.last_offset == (9 if number > 9 else 1)
    log.batches = [log.batches[0], behind]
    assert values(log.read_all())[-90:] == [b"a"] * 90


@pytest.mark.parametrize("base", [4, 15, 64])
def test_a_first_offset_among_those_of_later_batches_skips_none_of_them(base: int) -> None:
    damaged = build_batch([Rec(value=b"moved")] * 10)
    struct.pack_into(">q", damaged, 0, base)
    log = PartitionLog(stored(damaged, last_offset=9), *(good(10 * n, *[b"a"] * 10) for n in range(1, 10)))
    records = log.read_all()
    assert values(records) == [None] + [b"a"] * 90
    assert "offsets 0 to 9" in str(find_unreadable(records[0].headers))


def test_a_damaged_first_offset_of_the_next_batch_costs_no_record_of_the_one_before_it() -> None:
    moved = build_batch([Rec(value=b"moved")] * 10, base_offset=10)
    struct.pack_into(">q", moved, 0, 5)
    log = PartitionLog(good(0, *[b"a"] * 10), stored(moved, last_offset=19), good(20, b"b"))
    assert values(log.read_all())[:10] == [b"a"] * 10
    assert values(log.read_all()) == []


@pytest.mark.parametrize("length", [0, -1, 5, 48, 10_000, 2**31 - 1, -(2**31)])
def test_a_wrong_length_of_a_batch_stops_nothing(length: int) -> None:
    batch = build_batch([Rec(value=b"lost")])
    struct.pack_into(">i", batch, LENGTH_AT, length)
    assert values(PartitionLog(stored(batch, last_offset=0), good(1, b"a")).read_all()) == [None, b"a"]


@pytest.mark.parametrize("last", [0, 1, 2_000, 2**31 - 1, -7])
def test_a_damaged_number_of_offsets_skips_no_record_behind_it(last: int) -> None:
    batch = build_batch([Rec(value=b"lost")] * 3)
    struct.pack_into(">i", batch, DELTA_AT, last)
    log = PartitionLog(stored(batch, last_offset=2), good(3, b"a"), end=4)
    read = values(log.read_all())
    assert read[-1] == b"a"
    assert set(read[:-1]) == {None}


@pytest.mark.parametrize("base", [5, 2_000, 2**62, -1, -(2**63)])
def test_a_damaged_first_offset_skips_no_record_behind_it(base: int) -> None:
    batch = build_batch([Rec(value=b"lost")] * 3)
    struct.pack_into(">q", batch, 0, base)
    log = PartitionLog(stored(batch, last_offset=2), good(3, b"a"), end=4)
    read = values(log.read_all())
    assert read[-1] == b"a"
    assert set(read[:-1]) == {None}


def test_the_last_batch_of_a_partition_that_can_not_be_read_is_passed_as_a_whole() -> None:
    batch = flip(build_batch([Rec(value=b"lost")] * 3), HEADER_BYTES)
    [record] = PartitionLog(stored(batch, last_offset=2), end=3).read_all()
    unreadable = find_unreadable(record.headers)
    assert unreadable is not None
    assert (record.offset, unreadable.last_offset) == (0, 2)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_data_that_expands_beyond_the_limit_is_not_decompressed(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_batches, "MAX_BATCH_BYTES", 1_000_000)
    bomb = build_batch([Rec(value=b"0" * 1_000_001)], codec=codec)
    records = PartitionLog(stored(bomb, last_offset=0), good(1, b"a")).read_all()
    assert values(records) == [None, b"a"]
    unreadable = find_unreadable(records[0].headers)
    assert unreadable is not None
    assert f"{codec} data is larger than 1000000 bytes when it is decompressed" in unreadable.detail


def test_a_gigabyte_of_nothing_is_refused_before_it_fills_the_memory() -> None:
    batch = build_batch([Rec()])
    batch[HEADER_BYTES:] = zstd_encode(bytes(2**26)) * 16
    batch = set_codec(with_length(batch), 4)
    assert values(PartitionLog(stored(batch, last_offset=0), good(1, b"a")).read_all()) == [None, b"a"]


def test_an_answer_is_cut_where_it_would_take_too_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kb_shared.kafka_connection.fetched_batches.MAX_RESPONSE_BYTES", 10_000)
    log = PartitionLog(*(good(n, TEXT * 10, codec="zstd") for n in range(20)))
    assert len(log.fetch()) < 20_000
    assert len(log.read_all()) == 20


def test_a_batch_that_is_fetched_again_from_its_middle_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []

    def note(raw: bytes) -> Batch:
        reads.append(raw)
        return read_batch(raw)

    monkeypatch.setattr("kb_shared.kafka_connection.fetched_batches.read_batch", note)
    log = PartitionLog(good(0, *[TEXT] * 10, codec="zstd"), good(10, *[TEXT] * 5), good(15, b"a"))
    first = log.fetch()
    log.position = 12
    assert first.endswith(log.fetch())
    assert values(log.read_all()) == [TEXT] * 3 + [b"a"]
    assert len(reads) == 3


def test_a_batch_of_a_log_that_was_created_again_is_not_taken_for_that_of_the_old_one() -> None:
    log = PartitionLog(good(0, b"old"))
    assert values(log.read_all()) == [b"old"]
    log.position, log.batches = 0, [good(0, b"new")]
    assert values(log.read_all()) == [b"new"]


def test_a_record_whose_key_and_headers_no_row_can_hold_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_records, "MAX_KEY_AND_HEADERS_BYTES", 1_000)
    batch = build_batch([Rec(value=b"1"), Rec(headers=[("h", b"x" * 1_000)]), Rec(b"k" * 1_001), Rec(value=b"4")])
    records = PartitionLog(stored(batch, last_offset=3)).read_all()
    assert values(records) == [b"1", None, b"4"]
    assert "more than the 1000 bytes that are kept" in str(find_unreadable(records[1].headers))


def test_a_record_with_more_headers_than_are_kept_is_set_aside_before_they_take_memory() -> None:
    many = [Rec(value=b"1"), Rec(headers=[("", None)] * 249_000), Rec(headers=[("", None)] * 9_000)]
    batch = stored(build_batch(many, codec="zstd"), last_offset=2)
    tracemalloc.start()
    readable = read_batch(batch)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 5_000_000
    assert isinstance(readable.items[1], DamagedRecords)
    records = PartitionLog(batch).read_all()
    assert [len(record.headers) for record in records] == [0, 1, 9_000]
    assert "the record has 249000 headers, more than the 10000 that are kept" in str(
        find_unreadable(records[1].headers)
    )


def test_a_batch_with_too_many_headers_is_not_read_record_by_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_batches, "MAX_BATCH_HEADERS", 20)
    fits = stored(build_batch([Rec(headers=[("h", b"")] * 10)] * 2), last_offset=1)
    many = stored(build_batch([Rec(headers=[("h", b"")] * 7)] * 3, base_offset=2), last_offset=4)
    records = PartitionLog(fits, many, good(5, b"a")).read_all()
    assert values(records) == [b"v", b"v", None, b"a"]
    assert records[2].value == many


def test_headers_count_with_the_memory_that_they_take() -> None:
    headers = (("", b""),) * 1_000
    assert Record("t", 0, 0, b"", b"", headers, 0).size_bytes >= 80_000


def test_damaged_records_that_follow_each_other_are_copied_once() -> None:
    count = 3_000
    batch = build_batch([Rec(key=b"k" * 100) for _ in range(count)])
    batch = bytearray(bytes(batch).replace(varint(100) + b"k", varint(101) + b"k"))
    [damaged] = read_batch(bytes(with_checksum(batch))).items
    assert isinstance(damaged, DamagedRecords)
    assert (damaged.count, damaged.start, damaged.end) == (count, 0, len(batch) - HEADER_BYTES)
    assert damaged.payload == batch[HEADER_BYTES:]
    assert damaged.body == batch


def test_too_many_records_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_batches, "MAX_BATCH_RECORDS", 100)
    many = stored(build_batch([Rec()] * 101), last_offset=100)
    records = PartitionLog(many, good(101, b"a")).read_all()
    assert values(records) == [None, b"a"]
    assert records[0].value == many


@pytest.mark.parametrize("is_damaged", [False, True])
def test_records_of_an_aborted_transaction_are_not_handed_over(is_damaged: bool) -> None:
    transactional, control = 0x10, 0x20
    aborted = build_batch([Rec(value=b"aborted")] * 2, producer_id=7, attributes=transactional)
    if is_damaged:
        aborted = set_codec(aborted, 6)
    mark = build_batch(
        [Rec(struct.pack(">hh", 0, 0), b"\x00" * 6)], base_offset=2, producer_id=7, attributes=transactional | control
    )
    committed = build_batch([Rec(value=b"committed")], base_offset=3, producer_id=7, attributes=transactional)
    log = PartitionLog(
        stored(aborted, last_offset=1), stored(mark, last_offset=2), stored(committed, last_offset=3), aborted=[(7, 0)]
    )
    if is_damaged:
        # The second fetch begins behind it: a broker names the transactions of what it returns.
        log.fetch()
    assert values(log.read_all()) == [b"committed"]


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00"])
def test_a_damaged_mark_of_a_transaction_stops_nothing(key: bytes | None) -> None:
    mark = build_batch([Rec(key)], producer_id=7, attributes=0x30)
    assert values(PartitionLog(stored(mark, last_offset=0), good(1, b"a")).read_all()) == [None, b"a"]


def test_a_mark_that_compaction_has_emptied_is_passed() -> None:
    mark = build_batch([Rec(b"\x00\x00\x00\x00")], producer_id=7, attributes=0x30)
    del mark[HEADER_BYTES:]
    mark = set_int(with_length(mark), COUNT_AT, 0)
    assert values(PartitionLog(stored(mark, last_offset=0), good(1, b"a")).read_all()) == [b"a"]


def test_offsets_that_compaction_has_removed_are_no_damage() -> None:
    batch = set_int(build_batch([Rec(value=b"1"), Rec(value=b"5")], deltas=[1, 5], base_offset=10), DELTA_AT, 9)
    records = PartitionLog(stored(batch, last_offset=19), good(20, b"a")).read_all()
    assert [(record.offset, record.value) for record in records] == [(11, b"1"), (15, b"5"), (20, b"a")]


def test_records_that_have_no_offset_of_their_own_are_kept_and_can_be_read_again() -> None:
    batch = set_int(build_batch([Rec(value=b"1"), Rec(value=b"2")], deltas=[0, 0]), DELTA_AT, 0)
    [record] = PartitionLog(stored(batch, last_offset=0)).read_all()
    assert "the offsets of the records do not rise" in str(find_unreadable(record.headers))
    assert [each.value for each in read_all_records(record.value)] == [b"1", b"2"]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 2])
def test_batches_of_before_kafka_0_11_are_read(magic: int, codec: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, codec, 2**20)
    for n in range(3):
        builder.append(n, timestamp=1_000 + n, key=b"k", value=TEXT)
    data = bytearray(builder.build())
    if codec:
        # A broker gives the batch the offset of its last record.
        struct.pack_into(">q", data, 0, 2)
    assert values(PartitionLog(stored(data, last_offset=2), good(3, b"a")).read_all()) == [TEXT] * 3 + [b"a"]
    damaged = flip(bytearray(data), len(data) - 3)
    read = values(PartitionLog(stored(damaged, last_offset=2), good(3, b"a")).read_all())
    assert read[-1] == b"a"
    assert None in read


def old_batch(magic: int, messages: bytes) -> bytes:
    """Build a compressed batch of a format of before Kafka 0.11 with any messages."""
    times = b"" if magic == 0 else struct.pack(">q", 0)
    packed = gzip.compress(messages)
    body = struct.pack(">bb", magic, 1) + times + struct.pack(">ii", -1, len(packed)) + packed
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("length", [-12, -13, -1, 0, 13, 1_000, 2**31 - 1])
def test_lengths_within_an_old_batch_are_not_followed(magic: int, length: int) -> None:
    batch = old_batch(magic, struct.pack(">qi", 0, length) + bytes(22))
    records = PartitionLog(stored(batch, last_offset=0), good(1, b"a")).read_all()
    assert values(records) == [None, b"a"]
    assert "the lengths of the message at 0 do not fit" in str(find_unreadable(records[0].headers))


def test_too_many_records_of_an_old_batch_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_batches, "MAX_BATCH_RECORDS", 100)
    messages = [struct.pack(">qiIbbqii", n, 22, 0, 1, 0, 0, -1, -1) for n in range(101)]
    fits = bytearray(old_batch(1, b"".join(messages[:100])))
    struct.pack_into(">q", fits, 0, 99)
    many = bytearray(old_batch(1, b"".join(messages)))
    struct.pack_into(">q", many, 0, 200)
    records = PartitionLog(stored(fits, last_offset=99), stored(many, last_offset=200), good(201, b"a")).read_all()
    assert len(records) == 102
    assert "the batch has more than 100 records" in str(find_unreadable(records[100].headers))


def test_no_producer_can_forge_the_mark_of_what_can_not_be_read() -> None:
    damaged = stored(flip(build_batch([Rec()]), CRC_AT), last_offset=0)
    [record] = PartitionLog(damaged).read_all()
    [(name, _)] = record.headers
    assert len(name) > 32
    forged = build_batch([Rec(headers=[("unreadable", b'{"detail": "x", "last_offset": 9}')])])
    assert find_unreadable(PartitionLog(stored(forged, last_offset=0)).read_all()[0].headers) is None


def test_a_bug_in_reading_stops_no_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(raw: bytes) -> None:
        raise RuntimeError(str(raw))

    log = PartitionLog(good(0, b"a"), good(1, b"b"))
    with capture_logs() as logs, monkeypatch.context() as patch:
        patch.setattr("kb_shared.kafka_connection.fetched_batches.read_batch", fail)
        readable = log.fetch()
    assert readable
    assert "batch.not_read" in {each["event"] for each in logs}


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_damaged_good_records_around_it_are_read_and_each_offset_is_accounted_for(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_batches, "MAX_BATCH_BYTES", 1_000_000)
    choose = random.Random(seed)
    for _ in range(30):
        kind = choose.choice(list(DAMAGES))
        codec = choose.choice(["none", "gzip", "snappy", "lz4", "zstd"])
        batch = build_batch([Rec(value=TEXT + b"%d" % n) for n in range(4)], base_offset=1, codec=codec)
        with capture_logs():
            records = PartitionLog(
                good(0, b"before"), stored(DAMAGES[kind](batch, choose), last_offset=4), good(5, b"after"), end=6
            ).read_all()
        read = values(records)
        assert (read[0], read[-1]) == (b"before", b"after"), (kind, codec)
        covered = {
            offset
            for record in records
            for found in [find_unreadable(record.headers)]
            for offset in range(record.offset, (record.offset if found is None else found.last_offset) + 1)
        }
        assert covered >= {0, 1, 5}, (kind, codec)
        if covered != set(range(6)):
            # Only if the batch itself, with a good checksum, says that it has fewer records.
            assert kind in {
                "truncated records",
                "overwritten records",
                "other codec",
                "no offset",
                "negative offset",
            }, kind


def test_numbers_of_any_size_are_refused_and_not_followed() -> None:
    for number in (2**31, 2**62, -2, -(2**62)):
        body = b"\x00\x00\x00" + varint(number)
        batch = build_batch([Rec()])
        batch[HEADER_BYTES:] = varint(len(body)) + body
        assert values(
            PartitionLog(stored(with_checksum(with_length(batch)), last_offset=0), good(1, b"a")).read_all()
        ) == [
            None,
            b"a",
        ]
