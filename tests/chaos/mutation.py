"""Takes one safeguard out of the services. Imported by the zygote of a mutant, and by nothing else.

`CHAOS_MUTANT` names which; every service that is forked is without it.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from pymongo import InsertOne, ReplaceOne, ReturnDocument

from kb_indexer import projection
from kb_shared.kafka.attempts import Job as Record
from kb_shared.kafka.tenure import Tenure
from kb_shared.mongo import documents, vectors
from kb_shared.mongo.database import Database, Session
from kb_shared.mongo.documents import Document
from kb_shared.mongo.index_jobs import Job, work
from kb_shared.mongo.vectors import Changes, EmbeddedChunk, Write


def _commit_first() -> None:
    """Offsets are committed before the effect."""
    run = Tenure._run

    async def run_committed(self: Tenure, record: Record) -> None:
        record.tracker.finish(record.record.offset)
        await self._commit_what_is_safe()
        await run(self, record)

    patch.object(Tenure, "_run", run_committed).start()


def _fence_by_reading() -> None:
    """A swap looks at the projection and does not write it."""

    async def fence_projection(database: Database, session: Session, document: Document) -> int | None:
        row = {
            "_id": documents.row_id(document.organization_id, document.document_id),
            "organization_id": document.organization_id,
        }
        as_read = {**row, "projection_version": document.projection_version}
        if await database[documents.NAME].find_one(as_read, session=session) is None:
            return None
        # What is announced is numbered all the same.
        numbered = await database[documents.NAME].find_one_and_update(
            row, {"$inc": {"fence": 1}}, return_document=ReturnDocument.AFTER
        )
        return int(numbered["fence"]) if numbered else None

    patch.object(documents, "fence_projection", fence_projection).start()


def _positional_ids() -> None:
    """The third chunk of a document is the third chunk, whatever its text."""
    changes_by_content = vectors.changes

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
    patch.object(vectors, "changes", changes).start()


def _no_token_on_jobs() -> None:
    """Who ends work on a document also ends what was asked for meanwhile."""

    claimed_with_token = work._as_claimed

    def as_claimed(job: Job) -> dict[str, Any]:
        return {name: value for name, value in claimed_with_token(job).items() if name != "token"}

    patch.object(work, "_as_claimed", as_claimed).start()


def _no_revision_check() -> None:
    """What comes last is what counts."""

    def latest(_: object, new: object) -> object:
        return new

    patch.object(projection, "_latest", latest).start()


MUTANTS: dict[str, Callable[[], None]] = {
    "commit-first": _commit_first,
    "fence-by-reading": _fence_by_reading,
    "positional-ids": _positional_ids,
    "no-token-on-jobs": _no_token_on_jobs,
    "no-revision-check": _no_revision_check,
}

if name := os.environ.get("CHAOS_MUTANT"):
    MUTANTS[name]()
