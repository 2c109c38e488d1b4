"""What goes into chunking and what comes out."""

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kb_shared.embedding.late_text import LateText

MIN_OWN_TOKENS = 16
"""Fewer would not hold one code point (up to 4 tokens) together with the ones it may not be parted from."""

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
    """How a knowledge base cuts its documents; sizes are tokens of `cl100k_base`.

    Raises:
        ValueError: an overlap that leaves a chunk fewer than `MIN_OWN_TOKENS` of its own.
    """

    chunker_type: ChunkerType
    chunk_size: int
    chunk_overlap: int

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
        """The most tokens of a chunk's own text: what the overlap before it leaves."""
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
    """Of the table whose rows the span goes on with, to be repeated before them."""


@dataclass(frozen=True, slots=True)
class PageSpan:
    """Where a page stands in the text: offsets in code points, `end` exclusive."""

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
        chunk_type: `heading`, `table` or `code` when the chunk is nothing else, otherwise `text`.
        chunk_hash: SHA-256 in hex of `embedded_text`.
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
    chunk_hash: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha256(self.embedded_text.encode()).hexdigest()
        object.__setattr__(self, "chunk_hash", digest)

    @property
    def embedded_text(self) -> str:
        """Exactly what is embedded: a line with the heading path, the context, the text; or the text in its window."""
        if self.surroundings is not None:
            return self.surroundings.written()
        heading_line = f"{HEADING_SEPARATOR.join(self.heading_path)}\n" if self.heading_path else ""
        return f"{heading_line}{self.context}{self.text}"
