"""Slices of the documents of a KB. A pass compares one slice after the other, so that no query is large."""

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Final

from pymongo import ASCENDING

from kb_shared.mongo import document_index, documents
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase

SLICE_SIZE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Slice:
    """Condition on the id of a document, in the order of MongoDB's strings."""

    conditions: Row

    @property
    def by_document(self) -> Row:
        """Return the filter for rows with a `document_id`."""
        return {"document_id": self.conditions} if self.conditions else {}

    def by_row_id(self, kb_id: str) -> Row:
        """Return the filter for rows whose `_id` is `{kb_id}/{document_id}`."""
        # "0" follows "/": the upper bound of a KB's rows.
        bounds: Row = {"$gt": f"{kb_id}/", "$lt": f"{kb_id}0"}
        for operator, value in self.conditions.items():
            if operator == "$in":
                bounds = {"$in": [f"{kb_id}/{document_id}" for document_id in value]}
            else:
                bounds[operator] = f"{kb_id}/{value}"
        return {"_id": bounds}


async def one_slice(document_ids: Collection[str]) -> AsyncIterator[Slice]:
    """Yield the slice of the given documents."""
    yield Slice({"$in": sorted(document_ids)})


async def split(database: Database, kb: KnowledgeBase) -> AsyncIterator[Slice]:
    """Yield slices that together contain every document id, each with at most `SLICE_SIZE` rows of each collection.

    Documents that exist only as chunks are in one of them, too.
    """
    after: str | None = None
    while True:
        until = await _end_of_slice(database, kb, after)
        yield Slice(({} if after is None else {"$gt": after}) | ({} if until is None else {"$lte": until}))
        if until is None:
            return
        after = until


async def _end_of_slice(database: Database, kb: KnowledgeBase, after: str | None) -> str | None:
    beyond = {} if after is None else {"document_id": {"$gt": after}}
    of_kb = {"organization_id": kb.organization_id, "kb_id": kb.kb_id}
    tagged = {"organization_id": kb.organization_id, "tag_ids": {"$in": list(kb.tag_ids)}}
    ends = []
    for collection, query in ((document_index.NAME, of_kb), (documents.NAME, tagged)):
        rows = database[collection].find(query | beyond, {"_id": 0, "document_id": 1})
        ends += await rows.sort("document_id", ASCENDING).skip(SLICE_SIZE - 1).limit(1).to_list()
    return min((row["document_id"] for row in ends), default=None)
