"""Models that make vectors here: the words of a text, or the model that comes with the local stack."""

import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from kb_local.model_server.minilm import MiniLM
from kb_local.model_server.text_model import batches
from kb_shared.mongo.vector import Vector

Embed = Callable[[Sequence[str]], list[Vector]]

_BUCKETS = 2048
_WORD = re.compile(r"\w+")


def words(corpus: Sequence[str]) -> Embed:
    """Return a model that knows a text by its words, rare ones in `corpus` before common ones: quick, and no judge."""
    paragraphs = [paragraph for text in corpus for paragraph in re.split(r"\n+|(?<=\.) ", text)]
    seen_in = Counter(bucket for paragraph in paragraphs for bucket in set(_buckets(paragraph)))
    weights = np.array(
        [math.log((len(paragraphs) + 1) / (seen_in[bucket] + 1)) for bucket in range(_BUCKETS)], dtype=np.float32
    )

    def vector(text: str) -> Vector:
        counts = np.bincount(_buckets(text) or [0], minlength=_BUCKETS).astype(np.float32)
        return np.log1p(counts) * weights + np.float32(1e-6)

    return lambda texts: [vector(text) for text in texts]


def _buckets(text: str) -> list[int]:
    return [zlib.crc32(word.encode()) % _BUCKETS for word in _WORD.findall(text.lower())]


def minilm() -> Embed:
    """Return all-MiniLM-L6-v2: about 30 texts a CPU second."""
    model = MiniLM.load()

    def embed(texts: Sequence[str]) -> list[Vector]:
        pieces = model.tokenize(texts)
        vectors = np.empty((len(texts), model.dimensions), dtype=np.float32)
        for positions in batches(pieces):
            vectors[positions] = model.embed([pieces[position] for position in positions])
        return list(vectors)

    return embed


def remembering(model: Embed) -> Embed:
    """Return `model`, asked once for each text, as the cache has it."""
    known: dict[str, Vector] = {}

    def embed(texts: Sequence[str]) -> list[Vector]:
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(zip(missing, model(missing), strict=True))
        return [known[text] for text in texts]

    return embed
