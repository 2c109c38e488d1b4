"""`organizations`: one row each, written by whatever must not happen twice at once in an organization."""

from kb_shared.mongo.database import Database, MongoSession

NAME = "organizations"


async def fence(database: Database, session: MongoSession, organization_id: str) -> None:
    """Make transactions of this organization that call this follow one another, so that what they count stays true."""
    await database[NAME].update_one({"_id": organization_id}, {"$inc": {"writes": 1}}, upsert=True, session=session)
