import unicodedata
from itertools import pairwise

import pytest

from kb_shared.chunking import Chunk, ChunkerType, ChunkingConfig
from tests.unit.chunking.chunked import chunked


def chunks_of(text: str, chunker_type: ChunkerType, size: int = 40) -> list[Chunk]:
    return chunked(text, ChunkingConfig(chunker_type, size, 0))


def test_recursive_starts_a_chunk_at_each_section_that_fills_one() -> None:
    section = "## Part {}\n\n" + "Some words stand here. " * 6 + "\n"
    text = "".join(section.format(n) for n in range(5))
    starts = [chunk.text.splitlines()[0] for chunk in chunks_of(text, ChunkerType.RECURSIVE)]
    assert starts == [f"## Part {n}" for n in range(5)]


def test_recursive_keeps_paragraphs_whole_that_fit() -> None:
    paragraphs = [f"Paragraph {n} says a thing, and then another one, before it ends." for n in range(12)]
    chunks = chunks_of("\n\n".join(paragraphs), ChunkerType.RECURSIVE)
    assert [part for chunk in chunks for part in chunk.text.split("\n\n")] == paragraphs


@pytest.mark.parametrize("joint", ["\n\n", "\n", " \r\n\r\n", "\n \n\t\n"])
def test_recursive_parts_no_title_from_the_text_below_it(joint: str) -> None:
    sentence = "A sentence of some length stands here."
    opening = f"On the diving of seals.{joint}A. Author, 12 May 1987{joint}"
    text = f"{opening}{f'{sentence} ' * 30}\n\n{f'{sentence} ' * 30}"
    first, *others = [chunk.text for chunk in chunks_of(text, ChunkerType.RECURSIVE, 100)]
    assert first.startswith(f"{opening}{sentence} {sentence}")
    assert all(other.startswith(sentence) for other in others)


def test_recursive_takes_no_paragraph_for_a_title_that_is_over_a_quarter_of_a_chunk() -> None:
    paragraph = ("Seals dive. " * 8).strip()
    chunks = chunks_of(f"{paragraph}\n\n{'A sentence of some length stands here. ' * 30}", ChunkerType.RECURSIVE, 100)
    assert chunks[0].text == paragraph


def test_recursive_joins_the_end_of_a_long_paragraph_to_what_follows() -> None:
    long_paragraph = "A sentence of some length stands here. " * 10
    chunks = chunks_of(f"{long_paragraph}\n\nA short one.\n\nAnother short one.", ChunkerType.RECURSIVE)
    assert chunks[-1].text.endswith("A short one.\n\nAnother short one.")
    assert "length" in chunks[-1].text


def test_a_heading_is_not_joined_to_the_end_of_the_section_before_it() -> None:
    text = f"# One\n\n{'A sentence of some length stands here. ' * 5}\n\n# Two\n\nAnd there is more of it."
    (with_heading,) = [chunk.text for chunk in chunks_of(text, ChunkerType.RECURSIVE) if "# Two" in chunk.text]
    assert with_heading.startswith("# Two")


def test_sentence_cuts_only_after_sentences() -> None:
    text = "Does it stop here? It goes on for a while! Then it ends. " * 30
    assert {chunk.text[-1] for chunk in chunks_of(text, ChunkerType.SENTENCE)} <= set("?!.")


def test_sentence_knows_the_full_stops_of_other_scripts() -> None:
    text = "東京都は日本の首都である。人口は約千四百万人だ。" * 20
    assert {chunk.text[-1] for chunk in chunks_of(text, ChunkerType.SENTENCE, 60)} == {"。"}


def test_sentence_cuts_a_text_without_sentence_ends_at_clauses() -> None:
    text = "one clause of the sentence, another clause of it, " * 60
    assert {chunk.text[-1] for chunk in chunks_of(text, ChunkerType.SENTENCE)} == {","}


def test_word_never_parts_a_word_that_fits() -> None:
    words = [f"pneumonoultramicroscopic{n}" for n in range(200)]
    chunks = chunks_of(" ".join(words), ChunkerType.WORD)
    assert [word for chunk in chunks for word in chunk.text.split()] == words


def test_token_fills_its_chunks() -> None:
    counts = [chunk.token_count for chunk in chunks_of("pneumonoultramicroscopic " * 200, ChunkerType.TOKEN)]
    assert min(counts[:-1]) >= 38


@pytest.mark.parametrize("chunker_type", ChunkerType)
@pytest.mark.parametrize("text", ["e\u0301a\u0308o\u0302" * 200, "👩\u200d👩\u200d👧\u200d👦" * 60, "👍🏽" * 200])
def test_no_cut_parts_a_letter_from_its_marks_or_a_joined_emoji(text: str, chunker_type: ChunkerType) -> None:
    for _, chunk in pairwise(chunks_of(text, chunker_type)):
        first = chunk.text[0]
        assert not unicodedata.category(first).startswith("M")
        assert first not in "\u200d🏽"
        assert text[chunk.start - 1] != "\u200d"
