"""What `recursive` keeps together, and how it cuts what is too long."""

from itertools import pairwise

import pytest

from kb_shared.chunking import Chunk, ChunkerType, ChunkingConfig, chunk_text, count_tokens
from tests.unit.chunking.invariants import assert_sound

FILLER = "Some words stand here to fill the room. " * 3
HEADER = "| name | size |\n|---|---:|\n"
BIG_TABLE = HEADER + "".join(f"| row {n} | {n * 7} |\n" for n in range(120))
CODE = "```python\ndef area(r):\n\n    # pi times r squared\n\n    return 3 * r * r\n```\n"


def chunks_of(text: str, size: int = 100, overlap: int = 0) -> list[Chunk]:
    config = ChunkingConfig(ChunkerType.RECURSIVE, size, overlap)
    chunks = chunk_text(text, config)
    assert_sound(text, config, chunks)
    return chunks


@pytest.mark.parametrize("block", [HEADER + "| one | 1 |\n\n", CODE], ids=["table", "code"])
@pytest.mark.parametrize("words_before", range(3, 80, 7))
def test_a_table_or_code_block_that_fits_is_never_cut(block: str, words_before: int) -> None:
    text = f"{'word ' * words_before}\n\n{block}\n{FILLER}"
    (holding,) = [chunk for chunk in chunks_of(text, 60) if block.splitlines()[0] in chunk.text]
    assert block.strip() in holding.text


def test_a_comment_in_code_that_fits_is_no_place_to_cut() -> None:
    code = "```sh\n# install\nmake install\n\n# run\nmake run\n```"
    assert any(code in chunk.text for chunk in chunks_of(f"# A\n\n{FILLER}\n\n{code}\n\n# B\n\n{FILLER}", 50))


@pytest.mark.parametrize("overlap", [0, 30])
def test_a_table_that_does_not_fit_is_cut_by_rows_and_its_header_is_put_before_each_part(overlap: int) -> None:
    first, *others = chunks_of(BIG_TABLE, 100, overlap)
    assert first.text.startswith(HEADER)
    assert first.context == ""
    assert {chunk.context for chunk in others} == {HEADER}
    assert all(chunk.embedded_text.startswith(HEADER + "| row ") for chunk in others)
    rows = [row for chunk in [first, *others] for row in chunk.text.splitlines()]
    assert rows == BIG_TABLE.splitlines()
    assert {chunk.chunk_type for chunk in [first, *others]} == {"table"}
    assert max(count_tokens(chunk.embedded_text) for chunk in others) <= 100


def test_the_parts_of_a_table_are_full() -> None:
    sizes = [count_tokens(chunk.embedded_text) for chunk in chunks_of(BIG_TABLE)]
    assert min(sizes[:-1]) > 80


def test_text_around_a_long_table_is_not_mixed_with_its_rows() -> None:
    chunks = chunks_of(f"{FILLER}\n\n{BIG_TABLE}\n{FILLER}")
    assert [chunk.chunk_type for chunk in chunks][:1] == ["text"] == [chunk.chunk_type for chunk in chunks][-1:]
    assert {chunk.chunk_type for chunk in chunks[1:-1]} == {"table"}


def test_a_header_that_would_leave_less_than_half_of_a_chunk_for_rows_is_not_repeated() -> None:
    def contexts(columns: int) -> set[str]:
        header = "| " + " | ".join(f"column {n}" for n in range(columns)) + " |\n" + "|---" * columns + "|\n"
        return {chunk.context for chunk in chunks_of(header + ("|" + " 1 |" * columns + "\n") * 60)[1:]}

    (repeated,) = contexts(8)
    assert 35 < count_tokens(repeated) <= 50
    assert contexts(11) == {""}


def test_a_row_that_is_too_long_is_cut_at_words_under_the_header_too() -> None:
    chunks = chunks_of(f"{HEADER}| {'long ' * 300}| 9 |\n| short | 1 |\n")
    assert {chunk.context for chunk in chunks[1:]} == {HEADER}


def test_a_table_without_pipes_at_its_sides_is_one_too() -> None:
    header = "name | size\n---|---\n"
    chunks = chunks_of(header + "".join(f"row {n} | {n}\n" for n in range(90)))
    assert {chunk.context for chunk in chunks[1:]} == {header}


def test_rows_without_a_header_are_cut_between_rows() -> None:
    text = "".join(f"| row {n} | {n * 7} |\n" for n in range(120))
    chunks = chunks_of(text)
    assert [row for chunk in chunks for row in chunk.text.splitlines()] == text.splitlines()
    assert {chunk.context for chunk in chunks} == {""}


def test_a_table_of_a_windows_file_is_one_too() -> None:
    chunks = chunks_of(BIG_TABLE.replace("\n", "\r\n"))
    assert {chunk.context for chunk in chunks[1:]} == {HEADER.replace("\n", "\r\n").strip() + "\n"}


def test_pipes_in_a_code_block_are_no_table() -> None:
    assert {chunk.context for chunk in chunks_of(f"```\n{BIG_TABLE}```\n")} == {""}


def test_pipes_in_prose_are_no_table() -> None:
    chunks = chunks_of("A pipe | in a sentence. " * 40 + "\nAnother | line.\n")
    assert {chunk.chunk_type for chunk in chunks} == {"text"}


@pytest.mark.parametrize("body", [FILLER * 9, BIG_TABLE, HEADER + "| one | 1 |\n", CODE * 9], ids=str.split)
def test_a_heading_is_never_parted_from_the_beginning_of_what_it_stands_over(body: str) -> None:
    for chunk in chunks_of(f"# A\n\n{FILLER * 2}\n\n## Deep\n\n### Deeper\n\n{body}", 60):
        last_line = chunk.text.splitlines()[-1]
        assert not last_line.startswith("#") or last_line.startswith("# pi"), chunk.text


def test_a_long_code_block_is_cut_at_blank_lines_first() -> None:
    functions = [f"def f{n}(x):\n    # doubles it\n    y = x * 2\n    return y" for n in range(20)]
    chunks = chunks_of("```python\n" + "\n\n".join(functions) + "\n```\n")
    assert {chunk.chunk_type for chunk in chunks} == {"code"}
    assert all(chunk.text.startswith("def") for chunk in chunks[1:])


def test_a_long_line_does_not_hide_what_follows_it() -> None:
    text = f"{'word ' * 40_000}\n# A\n\nunder A\n"
    assert chunks_of(text)[-1].heading_path == ("A",)


def test_sections_that_fit_together_share_a_chunk() -> None:
    text = "".join(f"## Part {n}\n\nShort.\n\n" for n in range(30))
    chunks = chunks_of(text)
    assert all(chunk.text.startswith("## Part") for chunk in chunks)
    assert min(chunk.token_count for chunk in chunks[:-1]) > 60
    assert all(before.end <= after.start for before, after in pairwise(chunks))
