"""Waits until a system is idle."""

import asyncio
from dataclasses import dataclass, field
from time import monotonic

from pymongo.errors import ConnectionFailure

from tests.e2e.system import SystemUnderTest

_OPEN = {"state": {"$in": ["pending", "running"]}}
_BETWEEN_LOOKS_S = 0.25
SLOW_S = 120.0
"""Time that a busy machine may need for work of a moment."""
STUCK_AFTER_S = 120.0
"""Longer than what waits for a provider waits between two attempts, so soon after they began."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Work in progress. Two are equal if there was no progress between them."""

    what: frozenset[str]
    description: str = field(compare=False)


async def until_quiescent(system: SystemUnderTest) -> None:
    """Wait until every event is consumed, every job done, every scan ended and every message sent.

    However long that takes: a busy machine is slow. What is stuck shows no activity that it had not shown before.

    Raises:
        TimeoutError: nothing has come of what still moves for `STUCK_AFTER_S`.
    """
    seen: set[Activity] = set()
    progressed_at = monotonic()
    while activity := await _find_activity(system):
        if activity not in seen:
            seen.add(activity)
            progressed_at = monotonic()
        elif monotonic() - progressed_at > STUCK_AFTER_S:
            raise TimeoutError(f"for {STUCK_AFTER_S:g} s nothing has come of {activity.description}")
        await asyncio.sleep(_BETWEEN_LOOKS_S)


async def describe_activity(system: SystemUnderTest) -> str | None:
    """Return what is not done yet; None if nothing moves."""
    activity = await _find_activity(system)
    return None if activity is None else activity.description


async def _find_activity(system: SystemUnderTest) -> Activity | None:
    """In the order in which one thing causes the next: what is quiet once cannot be stirred by what comes before it."""
    try:
        # The lag is dear to ask for, and this mostly says enough.
        if activity := await _find_activity_in_mongo(system):
            return activity
        if lag := await system.kafka.lag():
            return _combine_activity(f"a lag of {lag} messages")
        return await _find_activity_in_mongo(system)
    except ConnectionFailure:
        # With too little CPU it answers later; that it never does again is no progress.
        return _combine_activity("a MongoDB that does not answer")


async def _find_activity_in_mongo(system: SystemUnderTest) -> Activity | None:
    database = system.database
    scans = [scan async for scan in database.backfills.find({"state": "running"})]
    jobs = [job async for job in database.index_jobs.find(_OPEN)]
    if scans or jobs:
        what = [*(f"{scan['_id']} {scan['phase']} {scan['cursor']}" for scan in scans), *(job["token"] for job in jobs)]
        some = ", ".join(f"{job['document_id']} {job['state']}" for job in jobs[:10])
        return Activity(frozenset(what), f"{len(scans)} scans and {len(jobs)} open jobs ({some})")
    if unsent := await database.outbox.count_documents({"sent_at": None}):
        return _combine_activity(f"{unsent} messages in the outbox")
    return None


def _combine_activity(what: str) -> Activity:
    return Activity(frozenset({what}), what)
