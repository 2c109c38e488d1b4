"""Deletes a tag that nothing uses."""

from kb_shared.errors import NotFound, RequestError
from kb_shared.http.authentication import Caller
from kb_shared.http.changes import commit_change
from kb_shared.mongo import documents, knowledge_bases, tags
from kb_shared.mongo.database import Database, MongoSession
from kb_shared.mongo.keys import TagKey


async def delete_tag(database: Database, caller: Caller, tag_id: str) -> None:
    """Delete a tag. Should a KB or document begin to use it at the same time, it has a tag that is deleted.

    Raises:
        NotFound: there is no such tag.
        RequestError: 409 `tag-in-use`.
    """
    key = TagKey(caller.organization_id, tag_id)
    if await tags.find(database, key) is None:
        raise NotFound("tag")

    async def delete(session: MongoSession) -> None:
        counted = await knowledge_bases.count_by_tag(database, key.organization_id, tag_ids=[tag_id], session=session)
        with_tag = await documents.count_with_tag(database, key.organization_id, tag_id=tag_id, session=session)
        kbs = counted.get(tag_id, 0)
        if kbs or with_tag:
            raise RequestError(
                409,
                "tag-in-use",
                f"{kbs} knowledge bases and {with_tag} documents have this tag: remove it from them first.",
            )
        await tags.mark_deleted(database, session, key)

    await commit_change(database, delete)
