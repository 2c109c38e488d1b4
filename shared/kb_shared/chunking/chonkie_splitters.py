"""The `recursive`, `sentence` and `semantic` chunkers of chonkie. The only module that imports it.

Their spans cover the text, but a sentence or a word that is over the limit comes out whole: cutting it is the
caller's, with the next finer splitter. chonkie's own last resort cuts through code points.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, Literal

import chonkie
import numpy as np
from chonkie import (
    BaseEmbeddings,
    RecursiveChunker,
    RecursiveLevel,
    RecursiveRules,
    SemanticChunker,
    Sentence,
    SentenceChunker,
)
from chonkie.chunker.base import split_text_by_delimiters

from kb_shared.chunking.boundaries import trimmed
from kb_shared.chunking.chunk import Span
from kb_shared.chunking.counted_text import CountedText
from kb_shared.chunking.windows import split_in_windows
from kb_shared.mongo.vector import Vector
from kb_shared.text.tokens import count_tokens

# CJK, Arabic, Urdu and Devanagari; escaped, since some look just like their ASCII kin.
_SENTENCE_ENDS = [". ", "! ", "? ", "\u3002", "\uff01", "\uff1f", "\u061f ", "\u06d4 ", "\u0964 "]
_CLAUSE_ENDS = ["; ", ": ", ", ", "\uff1b", "\uff1a", "\uff0c", "\u3001", "\u060c ", "\u061b "]
_Level = tuple[list[str], Literal["prev", "next"]]
_FINER_LEVELS: Final[Sequence[_Level]] = [
    (["\n\n", "\r\n\r\n", "\f", "\u2029"], "prev"),
    (["\n", "\r", "\u2028"], "prev"),
    (_SENTENCE_ENDS, "prev"),
    (_CLAUSE_ENDS, "prev"),
]
_LEVELS: Final[Sequence[_Level]] = [
    (["\n# "], "next"),
    (["\n## "], "next"),
    (["\n### "], "next"),
    (["\n#### ", "\n##### ", "\n###### "], "next"),
    *_FINER_LEVELS,
]
_WINDOW_CODE_POINTS = 32_768
_MIN_CHARACTERS_PER_SENTENCE = 24  # chonkie's own for grouping by meaning: "Yes." alone has little of it

SENTENCES_COMPARED: Final = 3
"""Number of sentences before one that are compared with it."""


def split_recursively(
    counted: CountedText, outer: Span, limit: int, *, seen: str | None = None, headings: bool = True
) -> Iterator[Span]:
    """Yield spans that end at headings, else paragraphs, lines, sentences, clauses: the coarsest that fit `limit`.

    Args:
        counted: the text.
        outer: what of it to split.
        limit: in tokens; a clause alone may be over it.
        seen: the text as the splitter sees it, of the same length: where to cut is decided by this one.
        headings: whether what looks like a heading is one.
    """
    chunker = _RecursiveChunker(
        counted, limit, seen=seen or counted.text, levels=_LEVELS if headings else _FINER_LEVELS
    )
    return split_in_windows(outer, chunker.spans, window=_WINDOW_CODE_POINTS)


def split_at_sentences(counted: CountedText, outer: Span, limit: int) -> Iterator[Span]:
    """Yield spans of whole sentences, as many as fit `limit`; one sentence where it alone is over."""
    chunker = _SentenceChunker(tokenizer=count_tokens, chunk_size=limit, delim=[*_SENTENCE_ENDS, "\n"])

    def split(window: Span) -> list[Span]:
        return _spans(chunker.chunk(counted.text[window.start : window.end]), window.start)

    # In windows, since chonkie copies the counts of all sentences that are left for each chunk it makes.
    return split_in_windows(outer, split, window=_WINDOW_CODE_POINTS)


def sentences_of(text: str) -> Iterator[Span]:
    """Yield spans that cover `text`; each ends with a sentence or a line, and has 24 characters or more."""

    def split(window: Span) -> list[Span]:
        pieces = split_text_by_delimiters(
            text[window.start : window.end], [*_SENTENCE_ENDS, "\n"], "prev", _MIN_CHARACTERS_PER_SENTENCE
        )
        ends = list(accumulate(map(len, pieces), initial=window.start))
        return [Span(*span) for span in pairwise(ends)]

    return split_in_windows(Span(0, len(text)), split, window=_WINDOW_CODE_POINTS)


def group_by_meaning(
    sentences: Sequence[tuple[str, int]], vectors: Mapping[str, Vector], limit: int, *, skip_window: int
) -> list[int]:
    """Return the sizes of the groups that neighbouring sentences make, in order.

    Args:
        sentences: texts, with what follows them, and their tokens.
        vectors: of each text, and of each `SENTENCES_COMPARED` texts that follow one another, joined.
        limit: the most tokens of a group; a sentence alone may be over it.
        skip_window: how many groups may lie between two that are joined because they are alike.
    """
    chunker = _SemanticChunker(sentences, vectors, limit, skip_window=skip_window)
    lengths = [len(chunk.text) for chunk in chunker.chunk("".join(text for text, _ in sentences))]
    ends = list(accumulate(len(text) for text, _ in sentences))
    counts = [bisect_right(ends, end) for end in accumulate(lengths)]
    return [after - before for before, after in pairwise([0, *counts])]


class _SentenceChunker(SentenceChunker):  # type: ignore[misc]  # chonkie is not followed by the type checker
    """Does not encode once more each chunk it has made of counted sentences."""

    def _create_chunk(self, sentences: list[Any]) -> Any:
        return chonkie.Chunk(text="", start_index=sentences[0].start_index, end_index=sentences[-1].end_index)


class _RecursiveChunker(RecursiveChunker):  # type: ignore[misc]  # chonkie is not followed by the type checker
    """Asks the counted text, where chonkie's own encodes each piece on each level.

    chonkie counts the pieces of a text one after the other, so where a piece begins is known from the one before it.
    """

    def __init__(self, counted: CountedText, limit: int, *, seen: str, levels: Sequence[_Level]) -> None:
        super().__init__(tokenizer=count_tokens, chunk_size=limit, min_characters_per_chunk=1)
        self._counted = counted
        self._seen = seen
        self._levels = levels
        self._next = 0

    def spans(self, window: Span) -> list[Span]:
        text = self._seen[window.start : window.end]
        if text.isspace():
            return [window]
        self.rules = _rules_for(text, self._levels)
        return _spans(self._recursive_chunk(text, start_offset=window.start))

    def _recursive_chunk(self, text: str, level: int = 0, start_offset: int = 0) -> Any:
        self._next = start_offset
        return super()._recursive_chunk(text, level, start_offset)

    def _estimate_token_count(self, text: str) -> int:
        # Not chonkie's own also because that keeps the last 4,096 texts of all tenants in a cache of the class.
        start, end = self._next, self._next + len(text)
        self._next = end
        tokens = self._counted.between(start, end)
        if tokens > self.chunk_size:
            return tokens  # By how much does not matter.
        # The first word of a chunk may take a token more than in the middle of the text.
        return max(tokens, self._counted.count(*trimmed(self._counted.text, start, end)))


def _rules_for(text: str, levels: Sequence[_Level]) -> RecursiveRules:
    """Return those of `levels` whose delimiters are in `text`."""
    return RecursiveRules(
        levels=[
            RecursiveLevel(delimiters=delimiters, include_delim=side)
            for delimiters, side in levels
            if any(delimiter in text for delimiter in delimiters)
        ]
    )


def _spans(chunks: list[Any], start: int = 0) -> list[Span]:
    return [Span(start + chunk.start_index, start + chunk.end_index) for chunk in chunks]


class _SemanticChunker(SemanticChunker):  # type: ignore[misc]  # chonkie is not followed by the type checker
    """Takes sentences and vectors that are there already."""

    def __init__(
        self, sentences: Sequence[tuple[str, int]], vectors: Mapping[str, Vector], limit: int, *, skip_window: int
    ) -> None:
        self._vectors = dict(vectors)
        super().__init__(
            embedding_model=_PrecomputedEmbeddings(self._vectors),
            chunk_size=limit,
            similarity_window=SENTENCES_COMPARED,
            skip_window=skip_window,
        )
        ends = [0, *accumulate(len(text) for text, _ in sentences)]
        self._sentences = [
            Sentence(text=text, start_index=start, end_index=end, token_count=tokens)
            for (text, tokens), (start, end) in zip(sentences, pairwise(ends), strict=True)
        ]

    def _prepare_sentences(self, _text: str) -> list[Any]:
        return self._sentences

    def _skip_and_merge(self, groups: list[list[Any]]) -> Any:
        # chonkie would have whole groups embedded, which may be longer than the model reads.
        for group in groups:
            text = "".join(sentence.text for sentence in group)
            self._vectors.setdefault(text, mean_vector([self._vectors[sentence.text] for sentence in group]))
        return super()._skip_and_merge(groups)


class _PrecomputedEmbeddings(BaseEmbeddings):  # type: ignore[misc]  # chonkie is not followed by the type checker
    """A model that answers from what is known."""

    def __init__(self, vectors: Mapping[str, Vector]) -> None:
        super().__init__()
        self._vectors = vectors

    def embed(self, text: str) -> Vector:
        return self._vectors[text]

    @property
    def dimension(self) -> int:
        return len(next(iter(self._vectors.values()), ()))

    def get_tokenizer(self) -> str:
        return "character"  # never asked: the sentences are counted


def mean_vector(vectors: Sequence[Vector]) -> Vector:
    """Return the direction between `vectors`, or the first one where they cancel each other out."""
    directions = [vector / np.linalg.norm(vector) for vector in vectors]
    mean: Vector = np.mean(directions, axis=0, dtype=np.float32)
    return mean if mean.any() else vectors[0]
