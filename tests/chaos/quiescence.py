"""When nothing moves any more."""

import asyncio
from dataclasses import dataclass, field
from time import monotonic

from pymongo.errors import ConnectionFailure

from tests.e2e.system import System

_OPEN = {"state": {"$in": ["pending", "running"]}}
_BETWEEN_LOOKS_S = 0.25
SLOW_S = 120.0
"""What a busy machine may need for what takes a moment."""
STUCK_AFTER_S = 120.0
"""Longer than what waits for a provider waits between two attempts, so soon after they began."""


@dataclass(frozen=True, slots=True)
class Motion:
    """What moves. Two are equal if nothing has come of it in between."""

    what: frozenset[str]
    told: str = field(compare=False)


async def until_quiescent(system: System) -> None:
    """Wait until every event is consumed, every job done, every scan ended and every message sent.

    However long that takes: a busy machine is slow. What is stuck shows no motion that it had not shown before.

    Raises:
        TimeoutError: nothing has come of what still moves for `STUCK_AFTER_S`.
    """
    seen: set[Motion] = set()
    progressed_at = monotonic()
    while motion := await _motion(system):
        if motion not in seen:
            seen.add(motion)
            progressed_at = monotonic()
        elif monotonic() - progressed_at > STUCK_AFTER_S:
            raise TimeoutError(f"for {STUCK_AFTER_S:g} s nothing has come of {motion.told}")
        await asyncio.sleep(_BETWEEN_LOOKS_S)


async def what_moves(system: System) -> str | None:
    """Return what is not done yet; None if nothing moves."""
    motion = await _motion(system)
    return None if motion is None else motion.told


async def _motion(system: System) -> Motion | None:
    """In the order in which one thing causes the next: what is quiet once cannot be stirred by what comes before it."""
    try:
        # The lag is dear to ask for, and this mostly says enough.
        if motion := await _motion_in_mongo(system):
            return motion
        if lag := await system.kafka.lag():
            return _motion_of(f"a lag of {lag} messages")
        return await _motion_in_mongo(system)
    except ConnectionFailure:
        # With too little CPU it answers later; that it never does again is no progress.
        return _motion_of("a MongoDB that does not answer")


async def _motion_in_mongo(system: System) -> Motion | None:
    database = system.database
    scans = [scan async for scan in database.backfills.find({"state": "running"})]
    jobs = [job async for job in database.index_jobs.find(_OPEN)]
    if scans or jobs:
        what = [*(f"{scan['_id']} {scan['phase']} {scan['cursor']}" for scan in scans), *(job["token"] for job in jobs)]
        some = ", ".join(f"{job['document_id']} {job['state']}" for job in jobs[:10])
        return Motion(frozenset(what), f"{len(scans)} scans and {len(jobs)} open jobs ({some})")
    if unsent := await database.outbox.count_documents({"sent_at": None}):
        return _motion_of(f"{unsent} messages in the outbox")
    return None


def _motion_of(what: str) -> Motion:
    return Motion(frozenset({what}), what)
