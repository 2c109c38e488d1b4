"""`document_revisions`: the greatest revision of a document, and of each of its facets, that was accepted over HTTP.

Two requests that follow each other closely get revisions that follow each other, though neither event has been handled.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pymongo import ReturnDocument

from kb_shared.mongo.database import Database, MongoSession

NAME = "document_revisions"

Facet: TypeAlias = Literal["text", "tags", "metadata", "deletion"]
"""Part of a document that has a revision of its own."""


@dataclass(frozen=True, slots=True)
class Accepted:
    revision: int
    seq: int
    """Rises with each request for the document, in the order of their commits."""


async def accept(
    database: Database,
    session: MongoSession,
    organization_id: str,
    document_id: str,
    *,
    revision: int | None,
    projected: int | None,
    facets: Collection[Facet],
) -> Accepted | None:
    """Note a revision of `facets`, or make one: greater than all that were accepted or `projected`.

    None: there is none greater.
    """
    greatest = {"$max": [{"$literal": 0}, "$revision", projected]}
    made = {"$add": [greatest, 1]} if revision is None else revision
    row = await database[NAME].find_one_and_update(
        {"_id": f"{organization_id}/{document_id}", "organization_id": organization_id},
        [
            {
                "$set": {
                    "document_id": {"$literal": document_id},
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
    # MongoDB goes on in floating point where 64 bits end.
    if row is None or not isinstance(row["accepted"], int):
        return None
    return Accepted(row["accepted"], row["seq"])


async def of_facets(
    database: Database, session: MongoSession, organization_id: str, document_id: str
) -> dict[Facet, int]:
    """The greatest revisions that were accepted, by facet; of those before facets were noted nothing is known."""
    row = await database[NAME].find_one(
        {"_id": f"{organization_id}/{document_id}", "organization_id": organization_id}, {"facets": 1}, session=session
    )
    return dict((row or {}).get("facets", {}))


async def find(database: Database, organization_id: str, document_id: str) -> int | None:
    """The greatest revision that was accepted."""
    row = await database[NAME].find_one(
        {"_id": f"{organization_id}/{document_id}", "organization_id": organization_id}, {"revision": 1}
    )
    return row["revision"] if row else None
