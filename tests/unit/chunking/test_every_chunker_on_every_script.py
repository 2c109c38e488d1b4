import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_shared.chunking import ChunkerType, ChunkingConfig
from tests.unit.chunking.chunked import chunked
from tests.unit.chunking.corpora import scripts
from tests.unit.chunking.invariants import assert_sound

SCRIPTS = scripts(repeats=4)

configs = st.builds(
    lambda chunker_type, own_tokens, overlap: ChunkingConfig(chunker_type, own_tokens + overlap, overlap),
    st.sampled_from(ChunkerType),
    st.integers(16, 90),
    st.integers(0, 60),
)
pieces = st.one_of(
    st.sampled_from([text[:n] for text in scripts(repeats=1).values() for n in (7, 90)]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.text(" \n\r\t#`|.-", max_size=12),
    st.sampled_from(["\n# A\n\n", "\n### B | C\n", "\n| a | b |\n|---|---|\n", "| row | 1 |\n" * 9, "\n```\n"]),
)
texts = st.lists(pieces, max_size=30).map("".join)


@pytest.mark.parametrize("sizes", [(16, 0), (120, 30)], ids=str)
@pytest.mark.parametrize("chunker_type", ChunkerType)
@pytest.mark.parametrize("script", SCRIPTS)
def test_chunks_of_a_script_are_sound(script: str, chunker_type: ChunkerType, sizes: tuple[int, int]) -> None:
    config = ChunkingConfig(chunker_type, *sizes)
    assert_sound(SCRIPTS[script], config, chunked(SCRIPTS[script], config))


@given(texts, configs)
def test_chunks_of_any_mixture_are_sound(text: str, config: ChunkingConfig) -> None:
    assert_sound(text, config, chunked(text, config))


@pytest.mark.parametrize("chunker_type", ChunkerType)
def test_chunks_of_a_text_of_many_windows_are_sound_and_come_out_the_same_again(chunker_type: ChunkerType) -> None:
    text = "".join(scripts(repeats=10).values())
    config = ChunkingConfig(chunker_type, 120, 30)
    chunks = chunked(text, config)
    assert_sound(text, config, chunks)
    assert chunked(text, config) == chunks


@pytest.mark.parametrize("chunker_type", [ChunkerType.TOKEN, ChunkerType.WORD, ChunkerType.SENTENCE])
def test_no_chunk_is_cut_short_where_a_window_ends(chunker_type: ChunkerType) -> None:
    text = "It is short, but it is a sentence. " * 4_000
    counts = [chunk.token_count for chunk in chunked(text, ChunkingConfig(chunker_type, 100, 0))]
    assert min(counts[:-1]) >= 80


@pytest.mark.parametrize("chunker_type", sorted(set(ChunkerType) - {ChunkerType.SEMANTIC, ChunkerType.SDPM}))
@pytest.mark.parametrize("script", ["ascii", "cjk", "thai", "base64", "csv", "emoji_zwj", "markdown"])
def test_chunks_of_a_script_are_mostly_full(script: str, chunker_type: ChunkerType) -> None:
    config = ChunkingConfig(chunker_type, 100, 0)
    counts = [chunk.token_count for chunk in chunked(SCRIPTS[script], config)]
    assert sum(counts[:-1]) / len(counts[:-1]) > 55


@pytest.mark.parametrize("chunker_type", ChunkerType)
@pytest.mark.parametrize(
    "blank", ["", " ", "\n" * 500_000, " \t\u2028\u3000\x0c"], ids=["empty", "space", "lines", "mixed"]
)
def test_a_blank_text_has_no_chunks(blank: str, chunker_type: ChunkerType) -> None:
    assert chunked(blank, ChunkingConfig(chunker_type, 100, 10)) == []


@pytest.mark.parametrize("chunker_type", ChunkerType)
def test_a_lone_surrogate_is_refused_without_telling_the_text(chunker_type: ChunkerType) -> None:
    with pytest.raises(ValueError, match=r"^text has a lone surrogate at offset 7$") as refusal:
        chunked("secret \ud800", ChunkingConfig(chunker_type, 100, 10))
    assert refusal.value.__context__ is None


def test_an_overlap_that_leaves_no_room_for_text_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves 10 tokens"):
        ChunkingConfig(ChunkerType.TOKEN, 50, 40)
    with pytest.raises(ValueError, match="below 0"):
        ChunkingConfig(ChunkerType.TOKEN, 50, -1)
