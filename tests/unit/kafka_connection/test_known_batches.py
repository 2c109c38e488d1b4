"""Batches that may be fetched again are kept, and never too many or the wrong ones."""

from kb_shared.kafka_connection.known_batches import KnownBatch, KnownBatches
from tests.record_batches import Rec, build_batch

PLACE, OTHER = ("t", 0), ("t", 1)


def batch(offset: int, value: bytes = b"v") -> tuple[bytes, KnownBatch]:
    raw = bytes(build_batch([Rec(value=value)], base_offset=offset))
    return raw, KnownBatch(offset, offset, raw)


def test_a_batch_is_known_in_its_partition_by_offset_and_checksum() -> None:
    known = KnownBatches(at_most_bytes=100_000)
    raw, kept = batch(7)
    known.keep(PLACE, raw, kept)
    assert known.find(PLACE, raw) == kept
    assert known.find(OTHER, raw) is None
    assert known.find(PLACE, batch(8)[0]) is None
    assert known.find(PLACE, batch(7, b"w")[0]) is None


def test_what_lies_before_the_position_is_forgotten() -> None:
    known = KnownBatches(at_most_bytes=100_000)
    batches = [batch(n) for n in range(3)]
    for raw, kept in batches:
        known.keep(PLACE, raw, kept)
    known.forget_before(PLACE, 2)
    assert [known.find(PLACE, raw) is not None for raw, _ in batches] == [False, False, True]


def test_no_more_bytes_are_kept_than_allowed() -> None:
    known = KnownBatches(at_most_bytes=3_000)
    batches = [batch(n, b"x" * 1_000) for n in range(9)]
    for raw, kept in batches:
        known.keep(PLACE, raw, kept)
        assert known.find(PLACE, raw) == kept
        assert sum(len(each) for each, _ in batches if known.find(PLACE, each)) <= 3_000
    large, kept = batch(9, b"x" * 3_000)
    known.keep(OTHER, large, kept)
    assert known.find(OTHER, large) is None


def test_room_that_is_forgotten_is_used_again() -> None:
    known = KnownBatches(at_most_bytes=3_000)
    other, kept_other = batch(0, b"x" * 500)
    known.keep(OTHER, other, kept_other)
    for n in range(9):
        known.forget_before(PLACE, n)
        raw, kept = batch(n, b"x" * 1_000)
        known.keep(PLACE, raw, kept)
        known.keep(PLACE, raw, kept)
    assert known.find(OTHER, other) == kept_other, "others are not forgotten for it"
