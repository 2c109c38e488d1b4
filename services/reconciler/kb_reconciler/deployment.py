"""Repairs what belongs to no document: jobs, backfills, KBs that failed, budgets."""

from collections import Counter
from dataclasses import dataclass, field

import structlog
from pymongo.errors import PyMongoError

from kb_reconciler.drift.kinds import DeploymentDrift
from kb_reconciler.drift.registry import DEPLOYMENT_DRIFT
from kb_shared.errors import TransientError
from kb_shared.mongo.database import Database
from kb_shared.observability.metrics import RECONCILER_DRIFT, RECONCILER_REPAIRS

log = structlog.get_logger()


@dataclass(slots=True)
class DeploymentReport:
    """Numbers of rows by kind of drift."""

    found: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)


async def repair_deployment(database: Database, *, thorough: bool) -> DeploymentReport:
    """Find and repair rows of the whole deployment. A kind that can't be looked for does not stop the others.

    Args:
        thorough: also look for the kinds of full passes.
    """
    report = DeploymentReport()
    for kind in DEPLOYMENT_DRIFT:
        if thorough or kind.in_every_pass:
            try:
                await _repair(database, kind, report)
            except (PyMongoError, TransientError) as error:
                log.warning("drift.repair_failed", kind=kind.name, error=type(error).__name__)
    return report


async def _repair(database: Database, kind: DeploymentDrift, report: DeploymentReport) -> None:
    found = await kind.find(database)
    report.found[kind.name] = len(found)
    RECONCILER_DRIFT.labels(kind.name).set(len(found))
    for row in found:
        if await kind.repair(database, row):
            report.repaired[kind.name] += 1
            RECONCILER_REPAIRS.labels(kind.name, "repaired").inc()
            log.info("drift.repaired", kind=kind.name, row=str(row))
