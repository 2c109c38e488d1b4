"""Common parts of the models that read texts."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

# Larger batches are slower per text here and take MiniLM 2.7 times the memory at 32.
BATCH_SIZE = 8

WordPieces = Sequence[int]
Matrix = npt.NDArray[np.float32]


class TextModel(Protocol):
    """A loaded model. Blocking, and safe to use on several threads at once."""

    name: ClassVar[str]
    dimensions: ClassVar[int]
    max_word_pieces: ClassVar[int]

    @classmethod
    def load(cls) -> Self:
        """Check the files and load them, in about a second.

        Raises:
            UnusableModelFile: a file is missing or not the pinned one.
        """

    def tokenize(self, texts: Sequence[str]) -> list[WordPieces]:
        """Return each text's word pieces, the two special ones included, at most `max_word_pieces`."""

    def embed(self, batch: Sequence[WordPieces]) -> Matrix:
        """Return one unit vector per text, shape (`len(batch)`, `dimensions`)."""


def batches(texts: Sequence[WordPieces]) -> Iterator[list[int]]:
    """Yield positions in `texts`, at most `BATCH_SIZE` at a time, shortest first so that little is padding."""
    by_length = sorted(range(len(texts)), key=lambda position: len(texts[position]))
    for start in range(0, len(by_length), BATCH_SIZE):
        yield by_length[start : start + BATCH_SIZE]
