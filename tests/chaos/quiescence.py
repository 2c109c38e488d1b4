"""When nothing moves any more."""

from tests.e2e.system import System, until

_OPEN = {"state": {"$in": ["pending", "running"]}}


async def until_quiescent(system: System, *, within_s: float = 60.0) -> None:
    """Wait until every event is consumed, every job done, every scan ended and every message sent.

    Raises:
        TimeoutError: naming what still moves.
    """
    moving = "everything"

    async def quiet() -> bool:
        nonlocal moving
        moving = await _what_moves(system)
        return not moving

    try:
        await until(quiet, within_s=within_s, every_s=0.25)
    except TimeoutError:
        raise TimeoutError(f"after {within_s:g} s there is still {moving}") from None


async def _what_moves(system: System) -> str:
    """In the order in which one thing causes the next: what is quiet once cannot be stirred by what comes before it."""
    # The lag is dear to ask for, and this mostly says enough.
    if moving := await _what_moves_in_mongo(system):
        return moving
    if lag := await system.kafka.lag():
        return f"a lag of {lag} messages"
    return await _what_moves_in_mongo(system)


async def _what_moves_in_mongo(system: System) -> str:
    database = system.database
    if scans := await database.backfills.count_documents({"state": "running"}):
        return f"{scans} scans"
    jobs = [f"{job['document_id']} {job['state']}" async for job in database.index_jobs.find(_OPEN)]
    if jobs:
        return f"open jobs: {', '.join(jobs[:10])}"
    if unsent := await database.outbox.count_documents({"sent_at": None}):
        return f"{unsent} messages in the outbox"
    return ""
