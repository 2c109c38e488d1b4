"""`stuck_life_cycle`: a KB is created, built or deleted for a while, and no kb-api has its lease."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from kb_reconciler.drift.index_lease import build_lease_name
from kb_reconciler.drift.kinds import DeploymentDrift
from kb_shared.mongo import knowledge_bases, leases
from kb_shared.mongo.database import Database

STUCK_AFTER: Final = timedelta(hours=1)


async def _find(database: Database) -> Sequence[str]:
    kb_ids = await knowledge_bases.find_long_in_transition(database, age=STUCK_AFTER)
    names = {build_lease_name(kb_id) for kb_id in kb_ids}
    return sorted(names - await leases.find_held(database, names))


STUCK_LIFE_CYCLE = DeploymentDrift("stuck_life_cycle", _find, leases.release_abandoned)
