"""Implements the `semantic` and `sdpm` chunkers: neighbouring sentences are grouped by their vectors of the KB's model.

`sdpm` (semantic double-pass merging) then joins groups that are alike, with one in between if need be. Both ask for
about two vectors a sentence. They do not fetch them: they yield the texts and are sent the vectors.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kb_shared.chunking.chonkie_splitters import (
    SENTENCES_COMPARED,
    group_by_meaning,
    mean_vector,
    sentences_of,
    split_recursively,
)
from kb_shared.chunking.chunk import ChunkerType, ChunkingConfig, SizedSpan, Span
from kb_shared.chunking.counted_text import CountedText
from kb_shared.chunking.splitting import as_it_is, split_within
from kb_shared.chunking.token_splitters import split_at_words
from kb_shared.mongo.vector import Vector

_SENTENCES_AT_ONCE = 256
_SKIP_WINDOW: Final = {ChunkerType.SEMANTIC: 0, ChunkerType.SDPM: 1}


@dataclass(frozen=True, slots=True)
class VectorsWanted:
    """Request for the vectors of these texts, in their order.

    Attributes:
        texts: distinct, none of them blank, each within the limit of a chunk's own text.
        of_document: how many vectors the document takes in all: these, others that grouping asks for, and those of its
            chunks; less where texts are equal, and where chunks are of several sentences.
    """

    texts: Sequence[str]
    of_document: int


class _Sentence(NamedTuple):
    start: int
    end: int
    text: str
    """Text of the sentence with the white space after it."""
    token_count: int


def split_by_meaning(
    counted: CountedText, config: ChunkingConfig
) -> Generator[VectorsWanted, Sequence[Vector], list[SizedSpan]]:
    """Ask for vectors, and return the chunks' spans: in order, trimmed, none blank, none over the limit."""
    runs = list(_runs(counted, config.own_tokens))
    to_group = sum(2 * len(run) - SENTENCES_COMPARED for run in runs if _is_worth_grouping(run))
    of_document = to_group + sum(len(run) for run in runs)
    spans: list[SizedSpan] = []
    for run in runs:
        groups = [Span(run[0].start, run[-1].end)]
        if _is_worth_grouping(run):
            groups = yield from _groups(run, config, of_document)
        for group in groups:
            # Cut is only a sentence that is too long, or a group by the token that joining sentences may add.
            splitters = (as_it_is, split_recursively, split_at_words)
            spans += split_within(counted, group, limit=config.own_tokens, splitters=splitters)
    return spans


def _runs(counted: CountedText, limit: int) -> Iterator[list[_Sentence]]:
    """Yield stretches of sentences that fit `limit`, and each of the others alone."""
    run: list[_Sentence] = []
    for sentence in _sentences(counted):
        if sentence.token_count <= limit:
            run.append(sentence)
            continue
        if run:
            yield run
        yield [sentence]
        run = []
    if run:
        yield run


def _sentences(counted: CountedText) -> Iterator[_Sentence]:
    for start, end in sentences_of(counted.text):
        text = counted.text[start:end]
        if not text.isspace():
            yield _Sentence(start, end, text, counted.between(start, end))


def _is_worth_grouping(run: Sequence[_Sentence]) -> bool:
    return len(run) > SENTENCES_COMPARED


def _groups(
    run: Sequence[_Sentence], config: ChunkingConfig, of_document: int
) -> Generator[VectorsWanted, Sequence[Vector], list[Span]]:
    """Group some sentences after the other. The last group of some is not kept: more may belong to it."""
    groups: list[Span] = []
    known: dict[str, Vector] = {}
    position = 0
    while position < len(run):
        some = run[position : position + _SENTENCES_AT_ONCE]
        texts = dict.fromkeys(text.strip() for text in _texts(some, config.own_tokens))
        missing = [text for text in texts if text not in known]
        # Those of earlier sentences are forgotten: a long document has too many to keep.
        known = {text: known[text] for text in texts if text in known}
        if missing:
            known |= zip(missing, (yield VectorsWanted(missing, of_document)), strict=True)
        sizes = group_by_meaning(
            [(sentence.text, sentence.token_count) for sentence in some],
            _vectors(some, known),
            config.own_tokens,
            skip_window=_SKIP_WINDOW[config.chunker_type],
        )
        more_to_come = position + len(some) < len(run)
        for size in sizes[:-1] if more_to_come and len(sizes) > 1 else sizes:
            groups.append(Span(run[position].start, run[position + size - 1].end))
            position += size
    return groups


def _texts(sentences: Sequence[_Sentence], limit: int) -> Iterator[str]:
    """Yield what vectors are wanted of: the sentences, and the windows in front of one that fit `limit`."""
    yield from (sentence.text for sentence in sentences)
    for window in _windows(sentences):
        if sum(sentence.token_count for sentence in window) <= limit:
            yield "".join(sentence.text for sentence in window)


def _windows(sentences: Sequence[_Sentence]) -> Iterator[Sequence[_Sentence]]:
    for index in range(len(sentences) - SENTENCES_COMPARED):
        yield sentences[index : index + SENTENCES_COMPARED]


def _vectors(sentences: Sequence[_Sentence], known: Mapping[str, Vector]) -> dict[str, Vector]:
    """Return the vectors of sentences and windows; of a window too long for the model, what its sentences make."""
    vectors = {sentence.text: known[sentence.text.strip()] for sentence in sentences}
    for window in _windows(sentences):
        text = "".join(sentence.text for sentence in window)
        vector = known.get(text.strip())
        vectors[text] = mean_vector([vectors[sentence.text] for sentence in window]) if vector is None else vector
    return vectors
