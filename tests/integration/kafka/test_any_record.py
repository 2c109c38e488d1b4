"""No record stops its partition, and none is skipped without a word, whatever it contains."""

import random
import struct
from dataclasses import dataclass, field

import pytest

from kb_contracts.errors import Rejected
from kb_shared.kafka.record import OrderingKey, Record
from kb_shared.kafka_connection import record_batches
from tests.integration.kafka.raw_producer import RawProducer, raw_producer
from tests.integration.kafka.support import BRIEF_SESSION, EVENTS, Stream, running
from tests.record_batches import CODECS, DAMAGES, ON_ANY_BROKER, Rec, build_batch, with_checksum
from tests.waiting import until

GOOD = b"good"
TRANSACTIONAL, CONTROL = 0x10, 0x20
_BYTES = (b"", b"\x00", b"\xff\xfe\x00", b"null", b'"quoted"', b"a/b", "ü".encode("utf-16"), b"{" * 500, b"k" * 40_000)
_TIMES = (-1, 0, 1, 1_767_225_600, 1_767_225_600_000, 253_402_300_800_000, 2**62)


@dataclass
class Written:
    """Batches that were written, with their places."""

    intact: dict[tuple[int, int], Rec] = field(default_factory=dict)
    """Records that must arrive as they were written, by partition and offset."""
    damaged: list[tuple[str, int, int]] = field(default_factory=list)
    """Kind of damage, partition and first offset."""
    refused: int = 0
    """Batches that the broker did not take."""
    good: int = 0


@dataclass
class Receiver:
    """Takes what is good and rejects the rest."""

    seen: dict[tuple[int, int], Record] = field(default_factory=dict)
    good: set[bytes] = field(default_factory=set)
    letters: dict[tuple[int, int], tuple[Record, str]] = field(default_factory=dict)

    def ordering_key(self, record: Record) -> OrderingKey:
        organization, _, document = (record.key or b"").decode(errors="replace").partition("/")
        return OrderingKey(organization, "", document)

    async def handle(self, record: Record) -> None:
        self.seen[record.partition, record.offset] = record
        value = record.value or b""
        if not value.startswith(GOOD):
            raise Rejected("bad-data", "odd")
        self.good.add(value)

    async def publish(self, record: Record, *, reason: str, detail: str) -> None:
        assert detail
        self.letters[record.partition, record.offset] = record, reason


def make_record(choose: random.Random) -> Rec:
    names = ("traceparent", "x-redriven-from", "", "ü", "content-type", "h" * 200)
    values = (None, b"", b"\xff", b"00-" + b"0" * 60, b"x" * 1_000)
    many = choose.choice((0, 1, 1, 3, 3, 1_000))
    headers = [(choose.choice(names), choose.choice(values)) for _ in range(many)]
    key = choose.choice((None, *_BYTES, choose.randbytes(choose.randint(1, 60))))
    value = choose.choice((None, *_BYTES, choose.randbytes(choose.randint(1, 3_000))))
    return Rec(key, value, headers, choose.choice(_TIMES))


def make_intact_batch(choose: random.Random) -> tuple[list[Rec], bytearray]:
    # A first record of the time -1 is written as one of the time 0 by the client library.
    records = [Rec(timestamp_ms=0, value=b"first"), *(make_record(choose) for _ in range(choose.randint(0, 3)))]
    if choose.random() < 0.3:
        records.append(Rec(value=b"the same words " * 200))
    return records, build_batch(records, codec=choose.choice(list(CODECS)))


def make_damaged_batch(choose: random.Random) -> tuple[str, bytearray]:
    kind = choose.choice([*ON_ANY_BROKER, "header name", "control record", "transaction"])
    records = [Rec(b"a/%d" % n, b"the same words " * choose.choice((1, 50)), [("name", b"1")]) for n in range(4)]
    batch = build_batch(records, codec="none" if kind == "header name" else choose.choice(list(CODECS)))
    if kind == "header name":
        at = batch.index(b"name")
        batch[at : at + 4] = b"\xff\xfe\x80\xc0"
        return kind, with_checksum(batch)
    if kind in ("control record", "transaction"):
        attributes = CONTROL | TRANSACTIONAL if kind == "control record" else TRANSACTIONAL
        key = choose.choice((None, b"", b"\x00", struct.pack(">hh", 0, choose.choice((0, 1, 2, 77)))))
        return kind, build_batch([Rec(key, b"")], producer_id=-1, attributes=attributes)
    return kind, DAMAGES[kind](batch, choose)


async def write_all(raw: RawProducer, topic: str, choose: random.Random, *, batches: int) -> Written:
    """Write odd and damaged batches, each with a good record behind it in its partition."""
    place = Written()
    for n in range(batches):
        partition = choose.randrange(EVENTS.partitions)
        if choose.random() < 0.5:
            records, batch = make_intact_batch(choose)
            offset = await raw.write(topic, partition, batch)
            if offset is not None:
                place.intact |= {(partition, offset + at): record for at, record in enumerate(records)}
        else:
            kind, batch = make_damaged_batch(choose)
            offset = await raw.write(topic, partition, batch)
            if offset is not None:
                place.damaged.append((kind, partition, offset))
        place.refused += offset is None
        await raw.write_surely(topic, partition, build_batch([Rec(b"a/1", GOOD + b" %d" % n)]))
        place.good += 1
    return place


def find_differences(place: Written, receiver: Receiver) -> list[str]:
    """Return what did not arrive as it was written."""
    differences = []
    for (partition, offset), written in place.intact.items():
        record = receiver.seen.get((partition, offset))
        if record is None:
            differences.append(f"{partition}/{offset} was not seen: {written}")
        elif (record.key, record.value, record.headers) != (written.key, written.value, tuple(written.headers)):
            differences.append(f"{partition}/{offset} differs: {record} is not {written}")
    for kind, partition, offset in place.damaged:
        is_heard = (partition, offset) in receiver.seen or (partition, offset) in receiver.letters
        # A mark of a transaction is none of the records that a consumer gets.
        if not is_heard and kind != "control record":
            differences.append(f"{partition}/{offset} was skipped: {kind}")
    return differences


async def read_all(stream: Stream, raw: RawProducer, choose: random.Random, *, batches: int) -> None:
    receiver = Receiver()
    async with running(stream.consumer(receiver, receiver, **BRIEF_SESSION)):
        place = await write_all(raw, stream.topic, choose, batches=batches)
        await until(
            lambda: len(receiver.good) == place.good,
            what=f"{place.good} good records",
            progress=lambda: len(receiver.seen) + len(receiver.letters),
        )
        assert find_differences(place, receiver) == []
        last = {partition: max(offset for each, offset in receiver.seen if each == partition) for partition in range(4)}
        await until_committed(stream, {partition: offset + 1 for partition, offset in last.items()})
    unreadable = [record for record, reason in receiver.letters.values() if reason == "unreadable-record"]
    assert all(record.value and record.key is None for record in unreadable)
    print(  # noqa: T201  # how much was tried
        f"{len(place.intact)} odd records and {len(place.damaged)} damaged batches in {batches} batches, "
        f"{place.refused} of them refused by the broker; {len(receiver.letters)} dead letters, "
        f"{len(unreadable)} of bytes that can't be read; {place.good} good records behind them were handled"
    )


async def until_committed(stream: Stream, offsets: dict[int, int]) -> None:
    async def all_committed() -> bool:
        return await stream.committed_offsets() == offsets

    await until(all_committed, what="all offsets committed", every_s=0.1)


@pytest.mark.parametrize("seed", [1])
async def test_a_good_record_behind_any_other_is_handled(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(record_batches, "MAX_BATCH_BYTES", 4_000_000)
    async with raw_producer(stream.connection) as raw:
        await read_all(stream, raw, random.Random(seed), batches=200)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 8))
async def test_a_good_record_behind_thousands_of_others_is_handled(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(record_batches, "MAX_BATCH_BYTES", 4_000_000)
    async with raw_producer(stream.connection) as raw:
        await read_all(stream, raw, random.Random(seed), batches=1_500)
