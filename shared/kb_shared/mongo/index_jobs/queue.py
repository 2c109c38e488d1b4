"""The queue in front of the lanes: jobs that are due, and whose commands are not published yet.

Kafka delivers a partition in order. If one organization had all its commands in the lanes, those of the others would
wait behind them. So the number of its jobs in the lanes is limited, and the rest waits here, where organizations and
their KBs take turns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from pymongo import ASCENDING

from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.index_jobs.job import NAME, PUBLISH_GRACE, ROWS, IndexJob, IndexJobState, build_later_time, row_id
from kb_shared.mongo.index_jobs.queries import BACKLOG_LIMIT
from kb_shared.mongo.keys import KnowledgeBaseKey


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """Numbers of jobs that may be in the lanes."""

    of_kb: int = BACKLOG_LIMIT
    of_organization: int = 400
    """Limit below the number of records that a consumer reads ahead in a partition (500), so that one organization
    never has all of them."""


LANE_LIMITS: Final = LaneLimits()
QUEUED: Final[Sequence[Row]] = ({"fullDocument.queued": True}, {"updateDescription.updatedFields.queued": True})
"""Changes after which a job is queued."""


async def count_in_lanes(database: Database, organization_id: str, *, kb_id: str | None = None, limit: int) -> int:
    """Count the jobs of an organization, or of one of its KBs, that are in a lane, up to `limit`."""
    query: Row = {"organization_id": organization_id, "in_lane": True}
    if kb_id is not None:
        query["kb_id"] = kb_id
    return await database[NAME].count_documents(query, limit=limit)


async def find_queued_organizations(database: Database) -> list[str]:
    """Return the organizations with queued jobs."""
    return list(await database[NAME].distinct("organization_id", {"queued": True}))


async def find_queued_kbs(database: Database, organization_id: str) -> list[KnowledgeBaseKey]:
    """Return the KBs of an organization with queued jobs."""
    kb_ids = await database[NAME].distinct("kb_id", {"queued": True, "organization_id": organization_id})
    return [KnowledgeBaseKey(organization_id, kb_id) for kb_id in kb_ids]


async def queue_all(database: Database, jobs: list[IndexJob]) -> None:
    """Queue jobs that were taken as due, in place of publishing their commands."""
    if not jobs:
        return
    await database[NAME].update_many(
        {
            "_id": {"$in": [row_id(kb_id=job.kb_id, document_id=job.document_id) for job in jobs]},
            "organization_id": {"$in": sorted({job.organization_id for job in jobs})},
            # A job that was requested again or claimed since is not changed.
            "publication": {"$in": [job.publication for job in jobs]},
            "state": IndexJobState.PENDING,
        },
        [{"$set": {"queued": True, "in_lane": False}}],
    )


async def take_queued(database: Database, key: KnowledgeBaseKey, *, limit: int) -> list[IndexJob]:
    """Take the first queued jobs of a KB, in the order of their requests; each is given to one caller.

    The caller publishes their commands on the bulk lane and calls `note_published`. After a crash, they are due after
    `PUBLISH_GRACE`.
    """
    queued: Row = {"queued": True, "organization_id": key.organization_id, "kb_id": key.kb_id}
    first = database[NAME].find(queued, {"_id": 1}).sort("requested_at", ASCENDING).limit(limit)
    row_ids = [row["_id"] async for row in first]
    if not row_ids:
        return []
    taken: Row = {"_id": {"$in": row_ids}, "organization_id": key.organization_id}
    publication = str(uuid4())
    await database[NAME].update_many(
        {**taken, **queued},
        [
            {
                "$set": {
                    "queued": False,
                    "in_lane": True,
                    "publication": publication,
                    "publish_by": build_later_time("$$NOW", PUBLISH_GRACE),
                    "next_attempt_at": build_later_time("$$NOW", PUBLISH_GRACE),
                }
            }
        ],
    )
    rows = database[NAME].find({**taken, "publication": publication}).sort("requested_at", ASCENDING)
    return [ROWS.read(row) async for row in rows]
