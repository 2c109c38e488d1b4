"""Runs models inside a service that give a vector for every token, as late chunking needs.

A piece's vector is the mean of the vectors that its tokens have in the text around it. Needs the extra `late`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kb_shared.embedding.late_text import LateText
from kb_shared.mongo.vector import Vector
from kb_shared.providers.known_providers import InputType

_SPECIAL_TOKENS: Final = 8
"""Room that is left in a model's input for those it adds itself, and for a cut that changes how words split."""
_UNKNOWN_MAX_TOKENS: Final = 512


class LateModelFailed(Exception):
    """It can't be loaded, or breaks; `str()` says how, quoting nothing."""


class TokenModel(Protocol):
    """Loaded model; its methods block."""

    max_tokens: int
    """Greatest number of tokens that the model reads at once."""

    def offsets(self, text: str) -> Sequence[tuple[int, int]]:
        """Return the position of each token of `text`, without those that the model adds."""
        ...

    def token_vectors(self, text: str) -> tuple[Sequence[tuple[int, int]], NDArray[np.float32]]:
        """Return the tokens of `text`, at most `max_tokens`, with their vectors in it; (0, 0) for added ones."""
        ...

    def query_vector(self, text: str) -> Vector: ...


class LateModels:
    """Loads a model when it is first asked; all of them work in one thread, beside the event loop."""

    def __init__(self) -> None:
        self._loaded: dict[str, TokenModel] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="late-models")

    async def embed(self, source: str, texts: Sequence[str], input_type: InputType) -> list[Vector]:
        """Return one vector of length 1 per text.

        Args:
            source: of the model: a folder, or a name at the hub.
            texts: queries, or pieces as `LateText` writes them.
            input_type: which of both.

        Raises:
            LateModelFailed: see there.
        """
        embedding = asyncio.get_running_loop().run_in_executor(self._thread, self._embed, source, texts, input_type)
        try:
            return await embedding
        except Exception as error:  # noqa: BLE001  # whatever a model's own code raises; its words may quote texts
            failure = type(error).__name__
        raise LateModelFailed(failure)

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    def _embed(self, source: str, texts: Sequence[str], input_type: InputType) -> list[Vector]:
        if source not in self._loaded:
            self._loaded[source] = load(source)
        model = self._loaded[source]
        if input_type == "query":
            return [model.query_vector(text) for text in texts]
        return vectors_of_pieces(model, [LateText.read(text) for text in texts])


def vectors_of_pieces(model: TokenModel, pieces: Sequence[LateText]) -> list[Vector]:
    """Return the vector of each piece in its window; a window is read once for all of its pieces."""
    windows = {window: _read(model, window) for window in dict.fromkeys(piece.window for piece in pieces)}
    return [_mean(*windows[piece.window], piece) for piece in pieces]


def _read(model: TokenModel, window: str) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Return begin and end of each token of a window, and its vector: in parts if the model can't read it at once."""
    bounds, vectors = [np.zeros((0, 2), np.intp)], []
    for start, end in _parts(model, window):
        offsets, found = model.token_vectors(window[start:end])
        added = np.array([begin == stop for begin, stop in offsets], bool)
        bounds.append(np.asarray(offsets, np.intp).reshape(-1, 2)[~added] + start)
        vectors.append(found[~added])
    return np.concatenate(bounds), np.concatenate(vectors)


def _parts(model: TokenModel, window: str) -> list[tuple[int, int]]:
    offsets = model.offsets(window)
    most = model.max_tokens - _SPECIAL_TOKENS
    begins = [0, *(offsets[first][0] for first in range(most, len(offsets), most))]
    return list(zip(begins, [*begins[1:], len(window)], strict=True))


def _mean(bounds: NDArray[np.intp], vectors: NDArray[np.float32], piece: LateText) -> Vector:
    inside = (bounds[:, 0] < piece.end) & (bounds[:, 1] > piece.start)
    mean = vectors[inside if inside.any() else slice(None)].mean(axis=0, dtype=np.float64)
    unit: Vector = (mean / np.linalg.norm(mean)).astype(np.float32)
    return unit


def load(source: str) -> TokenModel:
    """Load a model of sentence-transformers; from the disk, or from the hub if `source` is no folder."""
    import sentence_transformers  # of the extra, and slow

    return _SentenceTransformer(sentence_transformers.SentenceTransformer(source, device="cpu"))


class _SentenceTransformer:
    def __init__(self, model: Any) -> None:
        self._model = model
        self.max_tokens: int = model.max_seq_length or _UNKNOWN_MAX_TOKENS

    def offsets(self, text: str) -> Sequence[tuple[int, int]]:
        found = self._tokens(text, add_special_tokens=False)["offset_mapping"]
        return [(begin, end) for begin, end in found]

    def token_vectors(self, text: str) -> tuple[Sequence[tuple[int, int]], NDArray[np.float32]]:
        offsets = self._tokens(text, truncation=True, max_length=self.max_tokens)["offset_mapping"]
        # Without the prompt that some models put before documents: offsets are those of the text.
        vectors = self._model.encode(text, prompt="", output_value="token_embeddings", show_progress_bar=False)
        return [(begin, end) for begin, end in offsets], np.asarray(vectors.cpu(), np.float32)

    def query_vector(self, text: str) -> Vector:
        vector: Vector = self._model.encode_query(text, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(vector, np.float32)

    def _tokens(self, text: str, **options: Any) -> Mapping[str, Any]:
        tokens: Mapping[str, Any] = self._model.tokenizer(text, return_offsets_mapping=True, **options)
        return tokens
