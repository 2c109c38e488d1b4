"""A small collection with a search index on everything, and how Lucene scores a term in it, worked out by hand."""

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from bson import Binary, ObjectId

from tests.conformance.atlas_search.deployment import Document, mappings

DAY = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
OWNERS = [ObjectId(f"{number:024x}") for number in range(3)]
TICKETS = [Binary.from_uuid(UUID(int=number)) for number in range(3)]

DEFINITION = mappings(
    {
        "text": {"type": "string", "multi": {"exact": {"type": "string", "analyzer": "lucene.keyword"}}},
        "title": {"type": "string"},
        "lines": {"type": "string"},
        "english": {"type": "string", "analyzer": "lucene.english"},
        "kind": {"type": "token"},
        "label": {"type": "token", "normalizer": "lowercase"},
        "tags": {"type": "token"},
        "both": [{"type": "string"}, {"type": "token"}],
        "n": {"type": "number"},
        "whole": {"type": "number", "indexDoubles": False},
        "day": {"type": "date"},
        "flag": {"type": "boolean"},
        "owner": {"type": "objectId"},
        "ticket": {"type": "uuid"},
        "meta": {"type": "document", "dynamic": False, "fields": {"author": {"type": "string"}}},
        "any": {"type": "document", "dynamic": True},
    }
)

TEXTS = [
    "the quick brown fox jumps over the lazy dog",
    "a quick answer",
    "brown bread and brown sugar and brown rice",
    "the dog barks at the brown cow while the fox sleeps under an old oak tree far away from every farm in the land",
    "foxes and dogs",
    "quick quick quick",
    "nothing of interest",
]


def documents() -> list[Document]:
    return [_document(number, text) for number, text in enumerate(TEXTS)]


def _document(number: int, text: str) -> Document:
    document: Document = {
        "_id": number,
        "text": text,
        "english": text,
        "kind": ("fish", "bird", "Fish")[number % 3],
        "label": ("Red", "GREEN")[number % 2],
        "tags": [f"t{number % 2}", f"u{number % 3}"],
        "both": f"Number {number}",
        "n": number if number % 2 else number + 0.5,
        "whole": number if number % 2 else number + 0.5,
        "day": DAY + dt.timedelta(days=number),
        "flag": number < 3,
        "owner": OWNERS[number % 3],
        "ticket": TICKETS[number % 3],
        "meta": {"author": "Ada Lovelace" if number == 2 else "somebody", "hidden": "quick"},
        "any": {"deep": [{"word": f"word{number}"}], "size": number},
        "unmapped": "quick",
    }
    if number in (1, 4):
        # Few documents have a title: those that have none do not count in its statistics.
        document["title"] = "quick foxes" if number == 1 else "a long title that is of nothing in particular"
    if number == 3:
        document["lines"] = ["first red", "green second"]
        document["maybe"] = None
    if number == 5:
        document["n"] = None
    return document


def lucene_scores(texts: Mapping[Any, Sequence[str]], *terms: str) -> dict[Any, float]:
    """Return the BM25 score of each document that has one of the terms.

    Args:
        texts: the terms of each document that has the field.
        terms: asked for; their scores are added up.
    """
    mean_length = sum(map(len, texts.values())) / len(texts)
    scores: dict[Any, float] = {}
    for term in terms:
        having = [key for key, text in texts.items() if term in text]
        inverse_document_frequency = math.log(1 + (len(texts) - len(having) + 0.5) / (len(having) + 0.5))
        for key in having:
            frequency = texts[key].count(term)
            # Lengths up to 40 are exact in Lucene's one byte.
            part = frequency / (frequency + 1.2 * (1 - 0.75 + 0.75 * len(texts[key]) / mean_length))
            scores[key] = scores.get(key, 0) + inverse_document_frequency * part
    return scores


def best_first(scores: dict[Any, float]) -> list[Any]:
    return sorted(scores, key=lambda key: (-scores[key], key))
