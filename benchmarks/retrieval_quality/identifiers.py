"""Queries that name a thing: codes, numbers, dotted names, taken from the documents themselves.

Who searches for `IL-17F` or `rs1801133` wants the documents that hold it, and those alone are relevant.
"""

import re
from collections import defaultdict
from collections.abc import Sequence

from benchmarks.indexed_corpus import CorpusDocument
from benchmarks.retrieval_quality.dataset import Query

_IDENTIFIER = re.compile(r"(?<![\w.-])(?=[\w.-]*\d)(?=[\w.-]*[A-Za-z])[A-Za-z0-9]+(?:[-_.][A-Za-z0-9]+)*(?![\w-])")
_MOST_DOCUMENTS = 5
_SHORTEST = 4


def identifier_queries(documents: Sequence[CorpusDocument], most: int) -> list[Query]:
    """Return identifiers that few documents hold, spread evenly over all there are, as queries."""
    holders: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        for found in _IDENTIFIER.findall(f"{document.title}\n{document.text}"):
            holders[found].add(document.doc_id)
    rare = [name for name in sorted(holders) if len(holders[name]) <= _MOST_DOCUMENTS and len(name) >= _SHORTEST]
    step = max(1, len(rare) // most)
    return [
        Query(f"identifier-{name}", name, "", dict.fromkeys(sorted(holders[name]), 1.0)) for name in rare[::step][:most]
    ]
