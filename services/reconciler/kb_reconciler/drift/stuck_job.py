"""`stuck_job`: a job is due and no indexer takes it, or its lease ends later than any lease does."""

from collections.abc import Sequence

from kb_reconciler.drift.kinds import DeploymentDrift
from kb_shared.mongo import index_jobs
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import MembershipKey

_AT_ONCE = 1_000


async def _find(database: Database) -> Sequence[MembershipKey]:
    return await index_jobs.find_stuck(database, limit=_AT_ONCE)


STUCK_JOB = DeploymentDrift("stuck_job", _find, index_jobs.release_stuck)
