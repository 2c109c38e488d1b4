"""All codecs of Kafka are read, and none of them can fill the memory."""

import gzip
import random

import pytest
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode

from kb_shared.kafka_connection.codecs import CODECS, DecompressionFailed, decompress, find_unreadable_codecs

DATA = b"the same words again and again " * 100_000
ENCODED = {
    "gzip": gzip_encode(DATA, 1),
    "two-gzip-members": gzip.compress(DATA[:1_000]) + gzip.compress(DATA[1_000:]),
    "snappy": snappy_encode(DATA, xerial_compatible=False),
    "snappy-in-blocks": snappy_encode(DATA),
    "lz4": lz4_encode(DATA),
    "zstd": zstd_encode(DATA),
}
NUMBERS = {name: number for number, name in CODECS.items()}


def number_of(form: str) -> int:
    return next(number for name, number in NUMBERS.items() if name in form)


@pytest.mark.parametrize("form", ENCODED)
def test_what_a_codec_has_compressed_is_read_up_to_the_limit(form: str) -> None:
    assert decompress(number_of(form), bytes(ENCODED[form]), at_most_bytes=len(DATA)) == DATA
    with pytest.raises(DecompressionFailed, match=f"larger than {len(DATA) - 1} bytes when it is decompressed"):
        decompress(number_of(form), bytes(ENCODED[form]), at_most_bytes=len(DATA) - 1)


@pytest.mark.parametrize("form", ENCODED)
def test_damaged_data_is_refused_or_read_and_nothing_else_happens(form: str) -> None:
    choose = random.Random(form)
    refusals = []
    for _ in range(300):
        damaged = bytearray(ENCODED[form])
        for _ in range(choose.randint(1, 3)):
            damaged[choose.randrange(len(damaged))] = choose.randrange(256)
        if choose.random() < 0.3:
            del damaged[choose.randrange(len(damaged)) :]
        try:
            assert len(decompress(number_of(form), bytes(damaged), at_most_bytes=len(DATA))) <= len(DATA)
        except DecompressionFailed as failed:
            refusals.append(str(failed))
    assert len(refusals) > 50
    assert not [refusal for refusal in refusals if "words" in refusal]


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_named(codec: int) -> None:
    with pytest.raises(DecompressionFailed, match=f"codec {codec} is unknown; known are none, gzip, snappy, lz4, zstd"):
        decompress(codec, b"data", at_most_bytes=100)


def test_every_codec_can_be_read_and_one_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_unreadable_codecs() == []
    monkeypatch.setattr("aiokafka.codec.cramjam", None)
    assert find_unreadable_codecs() == ["snappy", "lz4", "zstd"]
    with pytest.raises(DecompressionFailed, match="codec zstd can't be read: the package cramjam is not installed"):
        decompress(NUMBERS["zstd"], b"data", at_most_bytes=100)
