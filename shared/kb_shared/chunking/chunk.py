"""Input and output of chunking."""

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kb_shared.embedding.late_text import LateText
from kb_shared.text.spellings import spelled_terms
from kb_shared.text.text_normalization import AS_WRITTEN, SPELLED, for_model, hash_passage

MIN_OWN_TOKENS = 16
"""Smallest number of tokens of a chunk: fewer would not hold one code point (up to 4 tokens) together with those that
it may not be parted from."""

HEADING_SEPARATOR = " > "


class ChunkerType(StrEnum):
    RECURSIVE = "recursive"
    SENTENCE = "sentence"
    TOKEN = "token"  # noqa: S105  # a unit of text, not a secret
    WORD = "word"
    SEMANTIC = "semantic"
    SDPM = "sdpm"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class ChunkingConfig:
    """Settings of a knowledge base for chunking; sizes are tokens of `cl100k_base`.

    Attributes:
        text_normalization: how what is embedded of a chunk is normalized; its own text never is.

    Raises:
        ValueError: an overlap that leaves a chunk fewer than `MIN_OWN_TOKENS` of its own.
    """

    chunker_type: ChunkerType
    chunk_size: int
    chunk_overlap: int
    text_normalization: int = AS_WRITTEN

    def __post_init__(self) -> None:
        if self.chunk_overlap < 0:
            raise ValueError(f"chunk_overlap is {self.chunk_overlap}, below 0")
        if self.own_tokens < MIN_OWN_TOKENS:
            raise ValueError(
                f"chunk_size {self.chunk_size} less chunk_overlap {self.chunk_overlap} leaves {self.own_tokens} tokens "
                f"for a chunk's own text, at least {MIN_OWN_TOKENS} are needed"
            )

    @property
    def own_tokens(self) -> int:
        """Return the greatest number of tokens of a chunk's own text: what the overlap before it leaves."""
        return self.chunk_size - self.chunk_overlap


class Span(NamedTuple):
    """Offsets in code points, `end` exclusive. A tuple because a long text has a hundred thousand of them."""

    start: int
    end: int


class SizedSpan(NamedTuple):
    """A `Span` without whitespace at either side, and the tokens in it."""

    start: int
    end: int
    token_count: int
    table_header: str = ""
    """Header of the table whose rows continue in the span, repeated before them."""


@dataclass(frozen=True, slots=True)
class PageSpan:
    """Position of a page in the text: offsets in code points, `end` exclusive."""

    page: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document; `text` is exactly `document_text[start:end]`.

    Attributes:
        token_count: tokens of `text` alone.
        context: what is put before `text` when it is embedded: the header of the table whose rows `text` goes on with,
            else the end of the previous chunk's text with what joins the two; "" where there is no overlap.
        heading_path: the headings in force where the chunk starts, outermost first, its own included when it starts
            with one; at most 64 tokens, outer ones left out first. It is embedded in addition to `chunk_size`.
        page_start, page_end: first and last page the chunk touches; None outside of all pages.
        surroundings: with what around it the chunk is embedded; None but for the `late` chunker, which has neither
            context nor heading path embedded.
        embedding_text: what is embedded in place of heading path, context and text; None for a chunk that is embedded
            itself.
        chunk_type: `heading`, `table` or `code` when the chunk is nothing else, otherwise `text`.
        text_normalization: how `embedded_text` is normalized; `surroundings` are already.
        embedded_text: exactly what is embedded: a line with the heading path, the context, the text, together
            normalized; or the text in its surroundings.
        chunk_hash: SHA-256 in hex of `embedded_text`.
        passage_hash: the same only for chunks with the same `embedded_text`, `text` and `embedding_text`.
        spellings: other spellings of the words in headings and texts; None with a normalization that has none.
    """

    chunk_index: int
    text: str
    start: int
    end: int
    token_count: int
    context: str
    heading_path: tuple[str, ...]
    page_start: int | None
    page_end: int | None
    chunk_type: str
    surroundings: LateText | None = None
    text_normalization: int = AS_WRITTEN
    embedding_text: str | None = None
    embedded_text: str = field(init=False)
    chunk_hash: str = field(init=False)
    passage_hash: str = field(init=False)
    spellings: str | None = field(init=False)

    def __post_init__(self) -> None:
        embedded = self._embedded()
        chunk_hash = hashlib.sha256(embedded.encode()).hexdigest()
        object.__setattr__(self, "embedded_text", embedded)
        object.__setattr__(self, "chunk_hash", chunk_hash)
        passage_hash = hash_passage(chunk_hash, self.text, self.text_normalization, embedding_text=self.embedding_text)
        object.__setattr__(self, "passage_hash", passage_hash)
        is_spelled = self.text_normalization == SPELLED
        terms = spelled_terms(*self.heading_path, self.text, self.embedding_text or "") if is_spelled else []
        object.__setattr__(self, "spellings", " ".join(terms) if is_spelled else None)

    def _embedded(self) -> str:
        if self.surroundings is not None:
            return self.surroundings.written()
        if self.embedding_text is not None:
            return for_model(self.embedding_text, self.text_normalization)
        heading_line = f"{HEADING_SEPARATOR.join(self.heading_path)}\n" if self.heading_path else ""
        return for_model(f"{heading_line}{self.context}{self.text}", self.text_normalization)
