"""Recognizes the model that the vectors of a KB came from.

Vectors of two models can't be compared, also where both have one name at two servers. A server that has moved has the
same vectors at another address.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.vector import Vector

_NUMBERS: Final = 16
_SAME_COSINE: Final = 0.99
"""Similarity of two samples of one model. Its vectors differ in the last digits from machine to machine."""


@dataclass(frozen=True, slots=True)
class VectorOrigin:
    fingerprint: str
    """Fingerprint of provider, address and model."""
    sample: tuple[float, ...]
    """First numbers of the vector of a fixed text."""

    @classmethod
    def from_probe(cls, fingerprint: str, vector: Vector) -> "VectorOrigin":
        return cls(fingerprint, tuple(float(number) for number in vector[:_NUMBERS]))

    def is_same_model(self, other: "VectorOrigin") -> bool:
        """Return whether two samples are of one model."""
        if len(self.sample) != len(other.sample):
            return False
        lengths = math.hypot(*self.sample) * math.hypot(*other.sample)
        return lengths > 0 and float(np.dot(self.sample, other.sample)) / lengths >= _SAME_COSINE


def origin_of(kb: KnowledgeBase) -> VectorOrigin | None:
    """Return where the vectors of a KB came from; None for one from before this was noted, or an imported one."""
    return None if kb.vector_fingerprint is None else VectorOrigin(kb.vector_fingerprint, kb.vector_sample)
