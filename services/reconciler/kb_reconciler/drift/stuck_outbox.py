"""`stuck_outbox`: messages are unsent for a while, and no relay has the lease of their bucket."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from kb_reconciler.drift.kinds import DeploymentDrift
from kb_shared.mongo import leases, outbox
from kb_shared.mongo.database import Database

STUCK_AFTER: Final = timedelta(minutes=10)


async def _find(database: Database) -> Sequence[str]:
    names = {outbox.build_lease_name(bucket) for bucket in await outbox.find_old_buckets(database, age=STUCK_AFTER)}
    return sorted(names - await leases.find_held(database, names))


STUCK_OUTBOX = DeploymentDrift("stuck_outbox", _find, leases.release_abandoned)
