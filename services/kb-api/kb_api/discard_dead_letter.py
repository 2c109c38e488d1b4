"""Marks a dead letter as one that is not to be sent again."""

from collections.abc import Sequence

from kb_shared.errors import NotFound
from kb_shared.http.changes import commit_change
from kb_shared.mongo import dead_letters
from kb_shared.mongo.database import Database, MongoSession
from kb_shared.mongo.dead_letters import DeadLetter


async def discard_dead_letter(
    database: Database, visible: Sequence[str | None], letter_id: str, *, by: str
) -> DeadLetter:
    """Mark an open letter as discarded and return it. One that is not open stays unchanged.

    Args:
        visible: organizations whose letters the caller may see.
        by: id of the caller's key.

    Raises:
        NotFound: there is no such letter among the visible ones.
    """

    async def discard(session: MongoSession) -> DeadLetter:
        letter = await dead_letters.find(database, visible, letter_id, session=session)
        if letter is None:
            raise NotFound("dead letter")
        await dead_letters.mark_discarded(database, session, letter, by=by)
        return await dead_letters.find(database, visible, letter_id, session=session) or letter

    return await commit_change(database, discard)
