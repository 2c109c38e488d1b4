"""Half a minute in no time, for a system whose indexers have ended."""

from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

_EARLIER = {"$dateSubtract": {"startDate": "$$NOW", "unit": "second", "amount": 1}}


async def expire_leases(database: AsyncDatabase[dict[str, Any]], *, relays: bool) -> None:
    """Turn the clock on by the longest lease, for what only an indexer holds. None may run now.

    Args:
        relays: turn it on for the outbox, too; then kb-api may not run either.
    """
    held = {"lease_until": {"$ne": None}}
    await database.backfills.update_many(held, [{"$set": {"lease_until": _EARLIER}}])
    await database.index_jobs.update_many(held, [{"$set": {"lease_until": _EARLIER}}])
    await database.index_jobs.update_many(
        {"next_attempt_at": {"$ne": None}}, [{"$set": {"next_attempt_at": _EARLIER, "postponed_until": None}}]
    )
    if relays:
        await database.leases.update_many({"_id": {"$regex": "^outbox/"}}, [{"$set": {"until": _EARLIER}}])


async def expire_leases_of_runners(database: AsyncDatabase[dict[str, Any]]) -> None:
    """Turn the clock on by the longest lease of a run of a source. No runner may run now."""
    await database.source_runs.update_many({"lease_until": {"$ne": None}}, [{"$set": {"lease_until": _EARLIER}}])


async def close_circuits(database: AsyncDatabase[dict[str, Any]]) -> None:
    """Turn the clock on for providers that were given up for a while."""
    await database.circuits.update_many({"open_until": {"$ne": None}}, [{"$set": {"open_until": _EARLIER}}])
