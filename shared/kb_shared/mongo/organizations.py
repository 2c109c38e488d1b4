"""`organizations`: one row for each organization, written by transactions that must not run concurrently."""

from kb_shared.mongo.database import Database, MongoSession

NAME = "organizations"


async def serialize_transactions(database: Database, session: MongoSession, organization_id: str) -> None:
    """Serialize the transactions of an organization that call this, so that what they count remains true."""
    await database[NAME].update_one({"_id": organization_id}, {"$inc": {"writes": 1}}, upsert=True, session=session)
