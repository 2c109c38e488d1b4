"""Common parts of the models that read texts."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

PIECES_AT_ONCE = 256
"""Word pieces of a batch: more are no faster, and a short query waits for one batch of a long request."""

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
    """Yield positions in `texts`, shortest first so that little is padding: `PIECES_AT_ONCE` with it, or one text."""
    batch: list[int] = []
    for position in sorted(range(len(texts)), key=lambda position: len(texts[position])):
        if batch and (len(batch) + 1) * len(texts[position]) > PIECES_AT_ONCE:
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch
