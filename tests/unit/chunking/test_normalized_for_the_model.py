"""Normalized is what is embedded; what is shown is the text as it was sent."""

import hashlib
from dataclasses import replace

import pytest

from kb_shared.chunking import Chunk, ChunkerType, ChunkingConfig
from kb_shared.embedding.late_text import LateText
from kb_shared.text.text_normalization import AS_WRITTEN, FOLDED, for_model
from tests.unit.chunking.chunked import chunked
from tests.unit.chunking.corpora import scripts

TYPESET = "# O\ufb03ce\n\n" + "The \ufb01l\u00adter     hums.\n\n\n\n" * 30
CONFIG = ChunkingConfig(ChunkerType.RECURSIVE, 60, 10, FOLDED)
NEVER_EMBEDDED = ("\ufb01", "\ufb03", "\u00ad", "   ", "\n\n\n")
SMALL = 5


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("chunker_type", ChunkerType)
def test_a_chunk_is_an_exact_slice_of_its_text_whatever_is_embedded_of_it(chunker_type: ChunkerType) -> None:
    overlap = 0 if chunker_type is ChunkerType.LATE else 10
    chunks = chunked(TYPESET, ChunkingConfig(chunker_type, 60, overlap, FOLDED))
    assert len(chunks) > 3
    for chunk in chunks:
        assert chunk.text == TYPESET[chunk.start : chunk.end]
        assert not [part for part in NEVER_EMBEDDED if part in chunk.embedded_text]
        assert chunk.chunk_hash == sha256(chunk.embedded_text)
        assert chunk.passage_hash == sha256(chunk.chunk_hash + chunk.text)


@pytest.mark.parametrize("chunker_type", ChunkerType)
def test_where_a_text_is_cut_does_not_depend_on_how_it_is_normalized(chunker_type: ChunkerType) -> None:
    for text in scripts(SMALL).values():
        config = ChunkingConfig(chunker_type, 80, 0, FOLDED)
        raw = chunked(text, replace(config, text_normalization=AS_WRITTEN))
        folded = chunked(text, config)
        if chunker_type not in (ChunkerType.SEMANTIC, ChunkerType.SDPM):
            assert [chunk.text for chunk in folded] == [chunk.text for chunk in raw]
        if chunker_type is not ChunkerType.LATE:
            assert [chunk.embedded_text for chunk in folded] == [
                for_model(chunk.embedded_text, FOLDED) for chunk in raw
            ]


def test_passages_that_are_embedded_alike_but_written_otherwise_share_a_vector_and_no_id() -> None:
    [written] = chunked("The \ufb01lter hums.", CONFIG)
    [plain] = chunked("The filter hums.", CONFIG)
    assert written.chunk_hash == plain.chunk_hash
    assert written.passage_hash != plain.passage_hash


def test_in_its_window_a_late_chunk_is_found_where_normalization_has_moved_it() -> None:
    chunks = chunked(TYPESET, ChunkingConfig(ChunkerType.LATE, 40, 0, FOLDED))
    assert len(chunks) > 2
    for chunk in chunks:
        late = LateText.read(chunk.embedded_text)
        assert late.window[late.start : late.end] == for_model(chunk.text, FOLDED)
        assert "\ufb01" not in late.window
        assert "\n\n\n" not in late.window


def test_a_late_chunk_of_which_nothing_would_be_left_is_embedded_as_it_is() -> None:
    [chunk] = chunked("\u00ad\u00ad", ChunkingConfig(ChunkerType.LATE, 40, 0, FOLDED))
    assert LateText.read(chunk.embedded_text) == ("\u00ad\u00ad", 0, 2)


def test_chunks_of_a_knowledge_base_without_normalization_keep_their_hashes_for_ever() -> None:
    # Other hashes would be other vectors to be paid for.
    [chunk] = chunked("# Title\n\nThe \ufb01lter   hums.", replace(CONFIG, text_normalization=AS_WRITTEN))
    assert chunk.embedded_text == "Title\n# Title\n\nThe \ufb01lter   hums."
    assert chunk.chunk_hash == chunk.passage_hash == sha256(chunk.embedded_text)
    assert Chunk.__dataclass_fields__["text_normalization"].default == AS_WRITTEN
