"""`semantic` and `sdpm`: what they make of the vectors of a text, and which vectors they ask for."""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from chonkie import BaseEmbeddings, SemanticChunker

from kb_shared.chunking import (
    Chunk,
    ChunkerType,
    ChunkingConfig,
    VectorsWanted,
    advance,
    chunk_text,
    chunking_steps,
    count_tokens,
)
from kb_shared.mongo.vector import Vector
from tests.unit.chunking.chunked import arbitrary_vectors
from tests.unit.chunking.invariants import assert_sound

BOTH = [ChunkerType.SEMANTIC, ChunkerType.SDPM]
SHIPS = "The ship number {} left the harbour at dawn. "
BREAD = "The loaf number {} was baked with rye flour. "


def story(*parts: tuple[str, int]) -> str:
    return "".join(sentence.format(n) for sentence, times in parts for n in range(times))


def turning(*changes: int) -> Any:
    """A model for which sentences go over to another subject around `changes`, and back again at every second one."""

    def subject(number: int) -> float:
        return math.fsum((-1) ** n / (1 + math.exp((at - number) / 0.7)) for n, at in enumerate(changes))

    def vectors(texts: Sequence[str]) -> list[Vector]:
        angles = [np.mean([subject(int(n)) for n in re.findall(r"\d+", text)]) * math.pi / 2 for text in texts]
        return [np.array([math.cos(angle), math.sin(angle)], dtype=np.float32) for angle in angles]

    return vectors


def chunks_of(text: str, chunker_type: ChunkerType, size: int, model: Any) -> list[Chunk]:
    config = ChunkingConfig(chunker_type, size, 0)
    chunks = chunk_text(text, config, embed=model)
    assert_sound(text, config, chunks)
    return chunks


def test_semantic_cuts_near_where_the_subject_changes() -> None:
    chunks = chunks_of(story((SHIPS, 60)), ChunkerType.SEMANTIC, 2_000, turning(20, 40))
    firsts = [int(re.findall(r"\d+", chunk.text)[0]) for chunk in chunks]
    assert any(abs(first - 20) <= 3 for first in firsts)
    assert any(abs(first - 40) <= 3 for first in firsts)
    assert len(chunks) < 8


def test_sdpm_joins_groups_of_one_subject_with_what_is_in_between() -> None:
    text, model = story((SHIPS, 60)), turning(20, 40)
    semantic = chunks_of(text, ChunkerType.SEMANTIC, 2_000, model)
    sdpm = chunks_of(text, ChunkerType.SDPM, 2_000, model)
    assert len(sdpm) < len(semantic)
    assert {chunk.start for chunk in sdpm} <= {chunk.start for chunk in semantic}


class Plain(BaseEmbeddings):  # type: ignore[misc]  # chonkie is not followed by the type checker
    """A model as chonkie calls it."""

    def embed(self, text: str) -> Vector:
        return arbitrary_vectors([text.strip()])[0]

    @property
    def dimension(self) -> int:
        return 8

    def get_tokenizer(self) -> str:
        return "character"


def test_the_groups_of_semantic_are_those_that_chonkie_makes_of_the_same_vectors() -> None:
    text = story((SHIPS, 90), (BREAD, 90))
    expected = [chunk.text.strip() for chunk in SemanticChunker(Plain(), chunk_size=10**6).chunk(text)]
    chunks = chunks_of(text, ChunkerType.SEMANTIC, 2_000, arbitrary_vectors)
    assert len(expected) > 20
    assert [chunk.text for chunk in chunks] == expected


@pytest.mark.parametrize("chunker_type", BOTH)
def test_a_subject_that_is_too_long_for_a_chunk_is_cut_after_a_sentence(chunker_type: ChunkerType) -> None:
    chunks = chunks_of(story((SHIPS, 60)), chunker_type, 100, turning(30))
    assert len(chunks) > 5
    assert all(chunk.text.endswith("dawn.") for chunk in chunks)


class Asked:
    """A model that remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []

    def __call__(self, texts: Sequence[str]) -> list[Vector]:
        self.requests.append(list(texts))
        return arbitrary_vectors(texts)

    @property
    def texts(self) -> list[str]:
        return [text for request in self.requests for text in request]


@pytest.mark.parametrize("chunker_type", BOTH)
def test_about_two_vectors_a_sentence_are_asked_for_and_known_from_the_first_question_on(
    chunker_type: ChunkerType,
) -> None:
    text = story((SHIPS, 1_000))
    steps = chunking_steps(text, ChunkingConfig(chunker_type, 200, 0))
    asked, outcome = Asked(), advance(steps)
    assert isinstance(outcome, VectorsWanted)
    expected = outcome.of_document
    while isinstance(outcome, VectorsWanted):
        assert outcome.of_document == expected
        outcome = advance(steps, asked(outcome.texts))
    assert isinstance(outcome, list)
    assert len(asked.texts) > 1.9 * 1_000
    assert len(asked.texts) + len(outcome) <= expected <= 3 * 1_000


@pytest.mark.parametrize("chunker_type", BOTH)
def test_a_long_document_is_asked_about_in_portions(chunker_type: ChunkerType) -> None:
    asked = Asked()
    chunk_text(story((SHIPS, 2_000)), ChunkingConfig(chunker_type, 200, 0), embed=asked)
    assert max(map(len, asked.requests)) <= 512
    assert len(asked.texts) == len(set(asked.texts)), "a vector was asked for twice"


@pytest.mark.parametrize("chunker_type", BOTH)
def test_nothing_longer_than_a_chunk_is_asked_about(chunker_type: ChunkerType) -> None:
    asked = Asked()
    text = story((SHIPS, 9)) + "word " * 500 + "漢字仮名交文字列" * 200 + ". " + "x" * 9_000 + story((BREAD, 9))
    chunk_text(text, ChunkingConfig(chunker_type, 50, 10), embed=asked)
    assert max(map(count_tokens, asked.texts)) <= 41
    assert all(text and text == text.strip() for text in asked.texts)


@pytest.mark.parametrize("chunker_type", BOTH)
def test_a_document_of_too_many_chunks_is_not_asked_about(chunker_type: ChunkerType) -> None:
    text, config = story((SHIPS, 100)), ChunkingConfig(chunker_type, 60, 0)
    packed = chunk_text(text, ChunkingConfig(ChunkerType.SENTENCE, 60, 0))
    assert isinstance(advance(chunking_steps(text, config, max_chunks=len(packed))), VectorsWanted)
    outcome = advance(chunking_steps(text, config, max_chunks=len(packed) - 1))
    assert not isinstance(outcome, VectorsWanted)
    assert len(outcome) == len(packed)


def test_groups_too_many_for_the_knowledge_base_give_way_to_packed_sentences() -> None:
    text, config = story((SHIPS, 90), (BREAD, 90)), ChunkingConfig(ChunkerType.SEMANTIC, 400, 0)
    packed = chunk_text(text, ChunkingConfig(ChunkerType.SENTENCE, 400, 0))
    assert len(chunk_text(text, config, embed=arbitrary_vectors)) > len(packed)
    steps = chunking_steps(text, config, max_chunks=len(packed))
    outcome = advance(steps)
    while isinstance(outcome, VectorsWanted):
        outcome = advance(steps, arbitrary_vectors(outcome.texts))
    assert outcome == packed


def test_a_chunker_that_groups_by_meaning_needs_vectors() -> None:
    with pytest.raises(TypeError, match="the semantic chunker needs vectors"):
        chunk_text(story((SHIPS, 9)), ChunkingConfig(ChunkerType.SEMANTIC, 60, 0))
