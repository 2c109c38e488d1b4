"""Takes one safeguard out. Imported by the zygote of a mutant, whose services are all without it, or by pytest.

`CHAOS_MUTANT` names which.
"""

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from pymongo import AsyncMongoClient, InsertOne, ReplaceOne, ReturnDocument, WriteConcern

from kb_shared.kafka.attempts import InFlightRecord as Record
from kb_shared.kafka.partition_assignment import PartitionAssignment
from kb_shared.membership import projection
from kb_shared.mongo import database as mongo
from kb_shared.mongo import documents, vectors
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.documents import Document
from kb_shared.mongo.index_jobs import IndexJob, work
from kb_shared.mongo.vectors import Changes, EmbeddedChunk, Write


def _commit_first() -> None:
    """Offsets are committed before the effect."""
    run = PartitionAssignment._run

    async def run_committed(self: PartitionAssignment, record: Record, bundle: Any) -> None:
        record.tracker.finish(record.record.offset)
        await self._commit_safe_offsets()
        await run(self, record, bundle)

    patch.object(PartitionAssignment, "_run", run_committed).start()


def _fence_by_reading() -> None:
    """A swap or a removal looks at the projection and does not write it.

    A snapshot lets it read the state before a concurrent change and commit beside it. The command that the change
    leads to corrects the result, unless one particular statement of the change falls between two of the swap's: no
    seed meets that reliably, `tests/integration/indexer/test_races.py` goes through them one by one.
    """

    async def numbered(database: Database, row: Row) -> int:
        # What is announced is numbered all the same; outside of the transaction, so that this fences nothing.
        found = await database[documents.NAME].find_one_and_update(
            {"_id": row["_id"], "organization_id": row["organization_id"]},
            {"$inc": {"fence": 1}},
            return_document=ReturnDocument.AFTER,
        )
        assert found is not None
        return int(found["fence"])

    async def fence_content(
        database: Database, session: MongoSession, document: Document, *, any_of_tags: Collection[str]
    ) -> tuple[Document, int] | None:
        if document.text is None:
            return None
        as_read = {
            **_row_of(document),
            "alive": True,
            "text_revision": document.text.revision,
            "text_digest": document.text.digest,
            "tag_ids": {"$in": sorted(any_of_tags)},
        }
        row = await database[documents.NAME].find_one(as_read, session=session)
        return (documents._from_row(row), await numbered(database, row)) if row else None

    async def fence_projection(database: Database, session: MongoSession, document: Document) -> int | None:
        as_read = {**_row_of(document), "projection_version": document.projection_version}
        row = await database[documents.NAME].find_one(as_read, session=session)
        return await numbered(database, row) if row else None

    patch.object(documents, "fence_content", fence_content).start()
    patch.object(documents, "fence_projection", fence_projection).start()


def _row_of(document: Document) -> Row:
    return {
        "_id": documents.row_id(document.key),
        "organization_id": document.organization_id,
    }


def _positional_ids() -> None:
    """The third chunk of a document is the third chunk, whatever its text."""
    changes_by_content = vectors.plan_changes

    def chunk_ids(document_id: str, chunks: Iterable[EmbeddedChunk]) -> dict[str, EmbeddedChunk]:
        return {f"{document_id}:{chunk.chunk_index}": chunk for chunk in chunks}

    def changes(
        *, document_id: str, chunks: Sequence[EmbeddedChunk], before: Iterable[dict[str, Any]], **others: Any
    ) -> Changes:
        wanted = chunk_ids(document_id, chunks)
        same = [row for row in before if row["_id"] not in wanted or wanted[row["_id"]].chunk_hash == row["chunk_hash"]]
        decided = changes_by_content(document_id=document_id, chunks=chunks, before=same, **others)
        writes: list[Write] = [
            ReplaceOne({"_id": write._doc["_id"]}, write._doc, upsert=True) if isinstance(write, InsertOne) else write
            for write in decided.writes
        ]
        return replace(decided, writes=writes)

    patch.object(vectors, "chunk_ids", chunk_ids).start()
    patch.object(vectors, "plan_changes", changes).start()


def _no_token_on_jobs() -> None:
    """Let the end of a job also end requests that came meanwhile.

    A swap hides this fault: its fences fail after an earlier change and hold back a later one. A job that ends without
    a swap shows it: nothing to do, given up, or waiting for a text. A seed shows it only if that was the document's
    last event; `test_jobs.py` sends a request during each of them.
    """

    claimed_with_token = work._as_claimed

    def claim_without_token(job: IndexJob) -> dict[str, Any]:
        return {name: value for name, value in claimed_with_token(job).items() if name != "token"}

    patch.object(work, "_as_claimed", claim_without_token).start()


def _no_revision_check() -> None:
    """Let the event that comes last win, whatever its revision."""

    def latest(_: object, new: object) -> object:
        return new

    patch.object(projection, "_latest", latest).start()


def _acknowledged_by_one() -> None:
    """A write counts when the primary alone has it.

    A set of one member forgets nothing, so seeds can't find this; `test_primary_kill.py` kills the primary of three.
    """

    def create_client(uri: str, **options: Any) -> AsyncMongoClient[Row]:
        return AsyncMongoClient(uri, **{**options, "w": 1})

    patch.object(mongo, "create_client", create_client).start()
    patch.object(mongo, "WriteConcern", lambda _: WriteConcern(1)).start()


MUTANTS: dict[str, Callable[[], None]] = {
    "commit-first": _commit_first,
    "fence-by-reading": _fence_by_reading,
    "positional-ids": _positional_ids,
    "no-token-on-jobs": _no_token_on_jobs,
    "acknowledged-by-one": _acknowledged_by_one,
    "no-revision-check": _no_revision_check,
}

if name := os.environ.get("CHAOS_MUTANT"):
    MUTANTS[name]()
