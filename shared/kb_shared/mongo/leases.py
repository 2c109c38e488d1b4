"""`leases`: exclusive rights to do something until a time of the server's clock."""

from collections.abc import Collection
from datetime import timedelta
from typing import Final

from pymongo import ReturnDocument

from kb_shared.mongo.database import Database
from kb_shared.mongo.majority import seen_by_later_reads

NAME = "leases"
LONGEST: Final = timedelta(days=1)
"""Length that no lease has: a later end is a fault."""


async def acquire(database: Database, name: str, *, owner: str, length: timedelta) -> bool:
    """Take or renew the lease `name`; False while another owner has it."""
    milliseconds = int(length.total_seconds() * 1000)
    free = {
        "$or": [
            {"$eq": ["$owner", {"$literal": owner}]},
            {"$eq": [{"$type": "$until"}, "missing"]},
            {"$lt": ["$until", "$$NOW"]},
        ]
    }
    # Majority reads of the new holder include the writes of the last holder.
    async with seen_by_later_reads(database):
        row = await database[NAME].find_one_and_update(
            {"_id": name},
            [
                {"$set": {"_free": free}},
                {
                    "$set": {
                        "owner": {"$cond": ["$_free", {"$literal": owner}, "$owner"]},
                        "until": {"$cond": ["$_free", {"$add": ["$$NOW", milliseconds]}, "$until"]},
                    }
                },
                {"$unset": "_free"},
            ],
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
    return row is not None and bool(row["owner"] == owner)


async def take_all(database: Database, names: Collection[str], *, owner: str, length: timedelta) -> set[str]:
    """Take or renew the leases of `names` that no other owner has, in one command if all exist; return their names."""
    until = {"$add": ["$$NOW", int(length.total_seconds() * 1000)]}
    async with seen_by_later_reads(database):
        await database[NAME].update_many(
            {"_id": {"$in": list(names)}, "$or": [{"owner": owner}, {"$expr": {"$lt": ["$until", "$$NOW"]}}]},
            [{"$set": {"owner": {"$literal": owner}, "until": until}}],
        )
        owners = {row["_id"]: row["owner"] async for row in database[NAME].find({"_id": {"$in": list(names)}})}
    taken = {name for name, holder in owners.items() if holder == owner}
    # Leases that never had an owner have no row yet.
    taken |= {name for name in set(names) - owners.keys() if await acquire(database, name, owner=owner, length=length)}
    return taken


async def release(database: Database, name: str, *, owner: str) -> None:
    await database[NAME].delete_one({"_id": name, "owner": owner})


async def find_held(database: Database, names: Collection[str]) -> set[str]:
    """Return the `names` with a valid lease: its end is neither past nor impossibly late."""
    rows = database[NAME].find(
        {"_id": {"$in": list(names)}, "$expr": {"$and": [{"$gte": ["$until", "$$NOW"]}, {"$not": [_IS_TOO_LONG]}]}},
        {"_id": 1},
    )
    return {row["_id"] async for row in rows}


async def release_abandoned(database: Database, name: str) -> bool:
    """Delete a lease whose end is past or impossibly late; return whether there was one."""
    abandoned = {"$or": [{"$lt": ["$until", "$$NOW"]}, _IS_TOO_LONG]}
    return (await database[NAME].delete_one({"_id": name, "$expr": abandoned})).deleted_count == 1


_IS_TOO_LONG: Final = {"$gt": ["$until", {"$add": ["$$NOW", int(LONGEST.total_seconds() * 1000)]}]}
