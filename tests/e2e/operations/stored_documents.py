"""Rows of documents in the form in which answers show them."""

from kb_shared.mongo.database import Row
from tests.e2e.operations.stocked_organization import StockedOrganization


async def stored_membership(organization: StockedOrganization, kb_id: str, document_id: str) -> Row | None:
    """Return the state of a document in a KB; None if it is neither in it nor about to be.

    An open job decides the status.
    """
    in_kb = {"kb_id": kb_id, "document_id": document_id}
    jobs = await organization.rows("index_jobs", **in_kb)
    indexed = await organization.rows("document_index", **in_kb)
    if not jobs and not indexed:
        return None
    document = await organization.row("documents", document_id=document_id)
    shown: Row = {"kb_id": kb_id, "document_id": document_id, "document_name": document["document_name"]}
    shown |= {
        "chunk_count": 0,
        "indexed_at": None,
        "attempts": 0,
        "error": None,
        "next_attempt_at": None,
        "embedding": None,
    }
    for row in indexed:
        shown |= {"status": "indexed" if row["chunk_count"] else "empty"}
        shown |= {name: row[name] for name in ("document_name", "chunk_count", "indexed_at")}
    for job in jobs:
        error = {"type": job["error_type"], "message": job["error_message"]} if job["error_type"] else None
        shown |= {"status": job["state"], "attempts": job["attempts"], "error": error}
        shown |= {"next_attempt_at": job["postponed_until"]}
    return shown


async def stored_memberships(organization: StockedOrganization, document_id: str) -> list[Row]:
    """Return the states of a document in all KBs that it is in or about to enter, by their ids."""
    found = [
        await stored_membership(organization, kb["_id"], document_id)
        for kb in await organization.rows("knowledge_bases")
    ]
    return [row for row in found if row is not None]
