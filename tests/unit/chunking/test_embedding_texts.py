"""A text with an embedding text is one chunk: embedded is the one, shown is the other."""

import hashlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kb_shared.chunking import Chunk, ChunkerType, ChunkingConfig, advance, chunking_steps
from kb_shared.embedding.late_text import LateText
from kb_shared.mongo.document_texts import text_id
from kb_shared.mongo.keys import DocumentKey
from kb_shared.text.text_normalization import AS_WRITTEN, FOLDED, for_model

DOCUMENT = DocumentKey("acme", "entry-a")
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=200)
VISIBLE = TEXTS.filter(str.strip)
NORMALIZATIONS = st.sampled_from([AS_WRITTEN, FOLDED])


def the_chunk(
    text: str, embedding_text: str | None, *, chunker_type: ChunkerType = ChunkerType.TOKEN, normalization: int = FOLDED
) -> Chunk:
    steps = chunking_steps(
        text, ChunkingConfig(chunker_type, 50, 0, normalization), max_chunks=1, embedding_text=embedding_text
    )
    chunks = advance(steps)
    assert isinstance(chunks, list), "nothing else is embedded to find where chunks end"
    [chunk] = chunks
    return chunk


@example("a", "1:2:looks like a piece of a window", ChunkerType.LATE, FOLDED)
@given(VISIBLE, VISIBLE, st.sampled_from(ChunkerType), NORMALIZATIONS)
def test_one_chunk_shows_the_text_and_is_embedded_as_the_embedding_text(
    text: str, embedding_text: str, chunker_type: ChunkerType, normalization: int
) -> None:
    chunk = the_chunk(text * 9, embedding_text, chunker_type=chunker_type, normalization=normalization)
    assert chunk.text == (text * 9)[chunk.start : chunk.end] == (text * 9).strip()
    assert chunk.embedding_text == embedding_text
    embedded = chunk.embedded_text
    if chunker_type is ChunkerType.LATE:
        window = LateText.read(embedded)
        embedded = window.window[window.start : window.end]
    assert embedded == for_model(embedding_text, normalization)
    assert chunk.chunk_hash == hashlib.sha256(chunk.embedded_text.encode()).hexdigest()


@given(VISIBLE, VISIBLE, VISIBLE, NORMALIZATIONS)
def test_another_text_is_another_id_with_the_same_vector_and_another_embedding_text_is_both(
    text: str, embedding_text: str, other: str, normalization: int
) -> None:
    def hashes(shown: str, embedded: str | None) -> tuple[str, str]:
        chunk = the_chunk(shown, embedded, normalization=normalization)
        return chunk.chunk_hash, chunk.passage_hash

    chunk_hash, passage_hash = hashes(f"{text}.", embedding_text)
    assert hashes(f"{text}.", embedding_text) == (chunk_hash, passage_hash)
    of_other_text = hashes(f"{text};", embedding_text)
    assert of_other_text[0] == chunk_hash
    assert of_other_text[1] != passage_hash
    of_other_embedding_text = hashes(f"{text}.", f"{embedding_text}.{other}")
    assert of_other_embedding_text[0] != chunk_hash
    assert of_other_embedding_text[1] != passage_hash


@pytest.mark.parametrize("normalization", [AS_WRITTEN, FOLDED])
def test_a_text_that_is_embedded_for_itself_is_another_passage_than_one_that_is_embedded_as_it_is(
    normalization: int,
) -> None:
    # Words are found in the embedding text, too, so the rows differ.
    plain = the_chunk("The filter hums.", None, normalization=normalization)
    same = the_chunk("The filter hums.", "The filter hums.", normalization=normalization)
    assert plain.chunk_hash == same.chunk_hash
    assert plain.passage_hash != same.passage_hash


def test_a_blank_text_has_no_chunk() -> None:
    steps = chunking_steps(" \n", ChunkingConfig(ChunkerType.TOKEN, 50, 0), embedding_text="x")
    assert advance(steps) == []


@given(TEXTS, st.none() | TEXTS, TEXTS, st.none() | TEXTS)
def test_the_id_of_a_stored_text_is_made_of_both(
    text: str, embedding_text: str | None, other_text: str, other_embedding_text: str | None
) -> None:
    one = text_id(DOCUMENT, text, (), embedding_text=embedding_text)
    other = text_id(DOCUMENT, other_text, (), embedding_text=other_embedding_text)
    assert (one == other) == ((text, embedding_text) == (other_text, other_embedding_text))


def test_the_id_of_a_text_without_one_is_what_it_always_was() -> None:
    assert text_id(DOCUMENT, "a", ()) == f"acme/entry-a/{hashlib.sha256(b'a()').hexdigest()}"
