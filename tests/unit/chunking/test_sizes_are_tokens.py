import os
import subprocess
import sys

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from kb_shared.chunking import ChunkerType, ChunkingConfig, count_tokens
from kb_shared.text.tokens import _vocabulary_path, token_starts
from tests.unit.chunking.chunked import chunked
from tests.unit.chunking.corpora import scripts


@pytest.fixture(scope="module")
def published() -> tiktoken.Encoding:
    """Return the encoding as tiktoken itself builds it, from the same file."""
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(_vocabulary_path().parent)
    try:
        return tiktoken.get_encoding("cl100k_base")
    finally:
        if before is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = before


@pytest.mark.parametrize("script", scripts(repeats=1))
def test_tokens_are_counted_as_the_published_encoding_counts_them(script: str, published: tiktoken.Encoding) -> None:
    text = scripts(repeats=1)[script]
    assert count_tokens(text) == len(published.encode_ordinary(text))


def test_a_special_token_in_a_text_is_just_text() -> None:
    assert count_tokens("<|endoftext|>") == 7


def test_counting_needs_no_litellm_and_no_network() -> None:
    script = (
        "import socket, sys\n"
        "def refuse(*_args, **_kwargs): raise AssertionError('network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from kb_shared.chunking import count_tokens\n"
        "assert count_tokens('hello world') == 2\n"
        "assert 'litellm' not in sys.modules\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TIKTOKEN_CACHE_DIR"}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_token_starts_are_offsets_between_whole_code_points(text: str) -> None:
    starts = token_starts(text)
    assert starts.offsets == sorted(set(starts.offsets))
    assert (starts.offsets[0], starts.offsets[-1]) == (0, len(text))
    assert starts.tokens_before[-1] == count_tokens(text)


def test_a_token_that_continues_a_code_point_is_no_place_to_cut() -> None:
    text = "x\U0001d518\U0001d52b"  # each letter of mathematics is several tokens
    starts = token_starts(text)
    assert count_tokens(text) > len(text)
    assert starts.offsets == [0, 1, 2, 3]


def test_w5_chunk_size_is_measured_in_tokens_and_not_in_characters() -> None:
    text = "information retrieval " * 400
    first, *_ = chunked(text, ChunkingConfig(ChunkerType.RECURSIVE, 128, 0))
    assert first.token_count > 100
    assert len(first.text) > 900


@pytest.mark.parametrize("chunker_type", ChunkerType)
def test_w6_a_table_of_two_thousand_rows_is_cut_by_tokens(chunker_type: ChunkerType) -> None:
    table = "| name | size |\n|---|---|\n" + "".join(f"| row {n} | {n * 7} |\n" for n in range(2_000))
    chunks = chunked(table, ChunkingConfig(chunker_type, 256, 0))
    assert max(chunk.token_count for chunk in chunks) <= 256
    assert {chunk.chunk_type for chunk in chunks if chunk.text.startswith("|")} == {"table"}
