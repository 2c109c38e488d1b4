"""Deletes data of KBs that no longer exist, once it was found for the length of a grace period.

The period protects a restore that has not restored the KBs yet.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from kb_reconciler.drift.registry import LEFTOVER_DRIFT
from kb_shared.mongo.database import Database

log = structlog.get_logger()


@dataclass(slots=True)
class LeftoverReport:
    """Leftovers that a pass found."""

    found: Counter[str] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)
    first_found: dict[str, datetime] = field(default_factory=dict)
    """Times at which the leftovers that remain were found first, by kind and KB."""


async def delete_leftovers(
    database: Database, *, first_found: Mapping[str, datetime], now: datetime, grace: timedelta
) -> LeftoverReport:
    """Find leftovers, and delete those that were found at least `grace` ago for the first time.

    Args:
        first_found: as the report of the last pass gives it.
    """
    report = LeftoverReport()
    for kind in LEFTOVER_DRIFT:
        for kb_id in sorted(await kind.find(database)):
            report.found[kind.name] += 1
            since = first_found.get(f"{kind.name}/{kb_id}", now)
            if now - since < grace:
                report.first_found[f"{kind.name}/{kb_id}"] = since
                continue
            await kind.delete(database, kb_id)
            report.deleted[kind.name] += 1
            log.info("drift.repaired", kind=kind.name, kb_id=kb_id)
    return report
