"""`stuck_backfill`: no indexer continues a backfill, or its lease ends later than any lease does."""

from kb_reconciler.drift.kinds import DeploymentDrift
from kb_shared.mongo import backfills

STUCK_BACKFILL = DeploymentDrift("stuck_backfill", backfills.find_stuck, backfills.release_stuck)
