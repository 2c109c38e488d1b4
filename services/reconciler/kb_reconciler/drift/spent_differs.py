"""`spent_differs`: what a budget counts as spent this month differs from the ledger, which is the truth."""

from datetime import timedelta

from kb_reconciler.drift.kinds import DeploymentDrift
from kb_shared.mongo import budgets
from kb_shared.mongo.database import Database


async def _repair(database: Database, organization_id: str) -> bool:
    return await budgets.recount(database, organization_id, at_most_every=timedelta(0))


SPENT_DIFFERS = DeploymentDrift("spent_differs", budgets.find_differing, _repair, in_every_pass=False)
