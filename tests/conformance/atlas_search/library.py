"""A small collection with an index on everything, and what a search over it must give, worked out by hand."""

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from bson import Binary, ObjectId
from bson.binary import BinaryVectorDtype
from numpy.typing import NDArray

from tests.conformance.atlas_search.deployment import Collection, Document, filter_field, vector_field

DIMENSIONS = 8
SIZE = 60
DAY = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
OWNERS = [ObjectId(f"{number:024x}") for number in range(3)]
TOKENS = [Binary.from_uuid(UUID(int=number)) for number in range(4)]
FILTER_PATHS = ("kind", "n", "price", "tags", "day", "flag", "owner", "token", "maybe", "nested.level")
FIELDS = [
    vector_field("embedding", DIMENSIONS, "cosine"),
    vector_field("dot", DIMENSIONS, "dotProduct"),
    vector_field("nested.point", DIMENSIONS, "euclidean"),
    *(filter_field(path) for path in FILTER_PATHS),
]


def _document(number: int, vector: NDArray[np.float32]) -> Document:
    unit = vector / np.linalg.norm(vector)
    document = {
        "_id": f"$d{number:02d}",
        "embedding": Binary.from_vector(vector.tolist(), BinaryVectorDtype.FLOAT32),
        "dot": [float(value) for value in unit],
        "nested": {"point": vector.astype(float).tolist(), "level": number % 4},
        "kind": ("fish", "bird", "Fish", "")[number % 4],
        "n": number,
        "price": number / 4,
        "tags": [f"t{number % 3}", f"u{number % 5}"],
        "day": DAY + dt.timedelta(days=number),
        "flag": number % 2 == 0,
        "owner": OWNERS[number % 3],
        "token": TOKENS[number % 4],
        "unindexed": number,
    }
    if number % 3:
        document["maybe"] = None if number % 3 == 1 else number
    return document


@dataclass(frozen=True, slots=True)
class Library:
    collection: Collection
    documents: Sequence[Document]
    vectors: NDArray[np.float32]

    @property
    def query(self) -> list[float]:
        return [float(value) for value in np.linspace(-1, 1, DIMENSIONS)]

    def ids(self, wanted: Callable[[Document], bool] = lambda _: True) -> list[Any]:
        """Return the ids of the documents that satisfy `wanted`, by cosine similarity to `query`, best first."""
        scores = self.cosine_scores()
        hits = [document for document in self.documents if wanted(document)]
        return [one["_id"] for one in sorted(hits, key=lambda one: -scores[one["_id"]])]

    def cosine_scores(self) -> dict[Any, float]:
        units = self.vectors / np.linalg.norm(self.vectors, axis=1, keepdims=True)
        query = np.asarray(self.query) / np.linalg.norm(self.query)
        return self._by_id((1 + units @ query) / 2)

    def dot_scores(self) -> dict[Any, float]:
        units = self.vectors / np.linalg.norm(self.vectors, axis=1, keepdims=True)
        return self._by_id((1 + units @ np.asarray(self.query)) / 2)

    def euclidean_scores(self) -> dict[Any, float]:
        return self._by_id(1 / (1 + ((self.vectors - np.asarray(self.query)) ** 2).sum(1)))

    def _by_id(self, scores: NDArray[Any]) -> dict[Any, float]:
        return {document["_id"]: float(score) for document, score in zip(self.documents, scores, strict=True)}


async def fill_library(collection: Collection) -> Library:
    vectors = np.random.default_rng(7).normal(size=(SIZE, DIMENSIONS)).astype(np.float32)
    documents = [_document(number, vector) for number, vector in enumerate(vectors)]
    await collection.insert_many(documents)
    return Library(collection, documents, vectors)
