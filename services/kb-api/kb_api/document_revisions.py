"""`document_revisions`: greatest revision of a document, and of each of its facets, that was accepted over HTTP.

So two requests in quick succession get consecutive revisions, although neither event has been handled. And an event
with the revision of another one, but with other content, learns which of the two stays.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pymongo import ReturnDocument

from kb_contracts.outcomes import Facet
from kb_shared.membership.outdated import FacetVersion
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.keys import DocumentKey
from kb_shared.mongo.rows import RowMapper

NAME = "document_revisions"


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
    contents: Mapping[Facet, Mapping[str, Any]] = field(default_factory=dict)
    """Greatest revisions with known content, each with its greatest digest; missing in rows of older versions."""


_ACCEPTED: Final = RowMapper(Accepted, names={"revision": "accepted"})
_GREATEST: Final = RowMapper(_Greatest)


async def accept(
    database: Database,
    session: MongoSession,
    key: DocumentKey,
    *,
    revision: int | None,
    projected: int | None,
    digests: Mapping[Facet, str],
) -> Accepted | None:
    """Store a revision of facets: the given one, or one greater than all accepted and `projected` revisions.

    Args:
        digests: digests of the content of the facets; empty if they are not known.

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
                    **{f"facets.{facet}": {"$max": [f"$facets.{facet}", "$accepted"]} for facet in digests},
                    # Documents are compared field by field: first the revision, then the digest.
                    **{
                        f"contents.{facet}": {
                            "$max": [f"$contents.{facet}", {"revision": "$accepted", "digest": {"$literal": digest}}]
                        }
                        for facet, digest in digests.items()
                        if digest
                    },
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


async def find_versions(database: Database, session: MongoSession, key: DocumentKey) -> dict[Facet, FacetVersion]:
    """Return the greatest accepted versions by facet, as far as they were stored by facet."""
    row = await database[NAME].find_one(_identity(key), {"facets": 1, "contents": 1}, session=session)
    greatest = _GREATEST.read(row or {})
    digests = {
        facet: content["digest"]
        for facet, content in greatest.contents.items()
        # A replica of an older version may have accepted a greater revision.
        if content["revision"] == greatest.facets.get(facet)
    }
    return {facet: FacetVersion(revision, digests.get(facet, "")) for facet, revision in greatest.facets.items()}


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
