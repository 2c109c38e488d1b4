"""`document_revisions`: greatest revision of a document, and of each of its facets, that was accepted over HTTP.

So two requests in quick succession get consecutive revisions, although neither event has been handled.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from pymongo import ReturnDocument

from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.keys import DocumentKey
from kb_shared.mongo.rows import RowMapper

NAME = "document_revisions"

Facet: TypeAlias = Literal["text", "tags", "metadata", "deletion"]
"""Part of a document that has a revision of its own."""


@dataclass(frozen=True, slots=True)
class Accepted:
    revision: int
    seq: int
    """Number of the request for the document, in the order of their commits."""


@dataclass(frozen=True, slots=True)
class _Greatest:
    """Greatest accepted revisions in a row."""

    revision: int | None = None
    facets: Mapping[Facet, int] = field(default_factory=dict)


_ACCEPTED: Final = RowMapper(Accepted, names={"revision": "accepted"})
_GREATEST: Final = RowMapper(_Greatest)


async def accept(
    database: Database,
    session: MongoSession,
    key: DocumentKey,
    *,
    revision: int | None,
    projected: int | None,
    facets: Collection[Facet],
) -> Accepted | None:
    """Store a revision of `facets`: the given one, or one greater than all accepted and `projected` revisions.

    Returns None if there is no greater one.
    """
    greatest = {"$max": [{"$literal": 0}, "$revision", projected]}
    made = {"$add": [greatest, 1]} if revision is None else revision
    row = await database[NAME].find_one_and_update(
        _identity(key),
        [
            {
                "$set": {
                    "document_id": {"$literal": key.document_id},
                    "accepted": made,
                    "seq": {"$add": [{"$ifNull": ["$seq", 0]}, 1]},
                }
            },
            {
                "$set": {
                    "revision": {"$max": ["$revision", "$accepted"]},
                    **{f"facets.{facet}": {"$max": [f"$facets.{facet}", "$accepted"]} for facet in facets},
                }
            },
        ],
        upsert=True,
        return_document=ReturnDocument.AFTER,
        session=session,
    )
    # Beyond 64 bits MongoDB continues in floating point.
    if row is None or not isinstance(row["accepted"], int):
        return None
    return _ACCEPTED.read(row)


async def of_facets(database: Database, session: MongoSession, key: DocumentKey) -> dict[Facet, int]:
    """Return the greatest accepted revisions by facet, as far as they were stored by facet."""
    row = await database[NAME].find_one(_identity(key), {"facets": 1}, session=session)
    return dict(_GREATEST.read(row or {}).facets)


async def find(database: Database, key: DocumentKey) -> int | None:
    """Return the greatest accepted revision."""
    row = await database[NAME].find_one(_identity(key), {"revision": 1})
    return _GREATEST.read(row or {}).revision


async def find_texts(database: Database, organization_id: str, *, document_ids: Collection[str]) -> dict[str, int]:
    """Return the greatest accepted revisions of the texts of documents, as far as there are any, by document."""
    ids = [f"{organization_id}/{document_id}" for document_id in document_ids]
    rows = database[NAME].find(
        {"_id": {"$in": ids}, "organization_id": organization_id}, {"document_id": 1, "facets": 1}
    )
    found = {row["document_id"]: _GREATEST.read(row).facets.get("text") async for row in rows}
    return {document_id: revision for document_id, revision in found.items() if revision is not None}


def _identity(key: DocumentKey) -> Row:
    return {"_id": f"{key.organization_id}/{key.document_id}", "organization_id": key.organization_id}
