"""Marks dead letters as ones that are not to be sent again."""

from collections.abc import Sequence
from dataclasses import dataclass

from kb_contracts.api.dead_letters import MAX_DISCARDED
from kb_shared.errors import NotFound
from kb_shared.http.changes import commit_change
from kb_shared.mongo import dead_letters
from kb_shared.mongo.database import Database, MongoSession
from kb_shared.mongo.dead_letters import DeadLetter, LetterFilter


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


@dataclass(frozen=True, slots=True)
class BulkDiscard:
    discarded: int
    are_more_left: bool


async def discard_dead_letters(
    database: Database, visible: Sequence[str | None], wanted: LetterFilter, *, by: str
) -> BulkDiscard:
    """Mark open letters as discarded, the oldest first, at most `MAX_DISCARDED` of them.

    Args:
        visible: organizations whose letters the caller may see.
        by: id of the caller's key.
    """
    letter_ids = await dead_letters.find_open(database, visible, wanted, limit=MAX_DISCARDED + 1)

    async def discard(session: MongoSession) -> int:
        return await dead_letters.mark_all_discarded(
            database, session, visible, letter_ids=letter_ids[:MAX_DISCARDED], by=by
        )

    return BulkDiscard(await commit_change(database, discard), are_more_left=len(letter_ids) > MAX_DISCARDED)
