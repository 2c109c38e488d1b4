"""`leases`: exclusive rights to do something until a time of the server's clock."""

from collections.abc import Collection
from datetime import timedelta

from pymongo import ReturnDocument

from kb_shared.mongo.database import Database
from kb_shared.mongo.majority import seen_by_later_reads

NAME = "leases"


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
