"""Drift that a dry run of the reconciler finds in all KBs."""

import asyncio
from collections import Counter
from typing import Final

from benchmarks.load.target import LoadTarget

_POLL_S: Final = 0.5
_IN_PROGRESS: Final = frozenset({"requested", "approved", "running"})


async def find_drift(target: LoadTarget) -> dict[str, int]:
    """Return the number of repairs that a dry run lists, by kind of drift; empty if there is no drift."""
    found: Counter[str] = Counter()
    for organization_id in target.keys:
        plan = await target.call(organization_id, "POST", "/reconcile?dry_run=true")
        while plan["state"] in _IN_PROGRESS:
            await asyncio.sleep(_POLL_S)
            plan = await target.call(organization_id, "GET", f"/reconcile/plans/{plan['plan_id']}")
        found.update(plan["found"])
        if plan["state"] == "failed":
            found["failed dry run"] += 1
    return dict(found)
