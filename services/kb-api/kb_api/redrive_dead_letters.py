"""Redrives many dead letters, the oldest first, at a limited rate, so that other documents are indexed meanwhile.

Each letter is marked in the transaction that adds its record to the outbox. After a crash the letters that were not
marked are still open, and the next request continues with them.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

from kb_api.message_limits import MessageLimits
from kb_api.redrive_dead_letter import send_once
from kb_contracts import topics
from kb_contracts.api.dead_letters import MAX_REDRIVEN
from kb_shared import failpoints
from kb_shared.concurrency.fair_queue import pause_turn
from kb_shared.errors import RequestError
from kb_shared.http.changes import commit_change
from kb_shared.mongo import dead_letters
from kb_shared.mongo.database import Database, MongoSession
from kb_shared.mongo.dead_letters import LetterFilter

PER_SECOND: Final = 100
WITHIN_S: Final = 20.0
"""Time after which a request leaves the rest to the next one."""


@dataclass(slots=True)
class BulkRedrive:
    redriven: int = 0
    too_large: int = 0
    """Number of letters that are larger than Kafka accepts. They stay open."""
    unreadable: int = 0
    """Number of letters whose bytes still can't be read as records. They stay open."""
    are_more_left: bool = False


async def redrive_dead_letters(
    database: Database,
    visible: Sequence[str | None],
    wanted: LetterFilter,
    *,
    by: str,
    message_limits: MessageLimits,
) -> BulkRedrive:
    """Redrive open letters, at most `MAX_REDRIVEN` of them.

    Args:
        visible: organizations whose letters the caller may see.
        by: id of the caller's key.
    """
    began = monotonic()
    at_most_bytes = max(message_limits.get_limit(topic) for topic in topics.TOPICS)
    letter_ids = await dead_letters.find_oldest_open(
        database, visible, wanted, at_most_bytes=at_most_bytes, limit=MAX_REDRIVEN + 1
    )
    done = BulkRedrive(are_more_left=len(letter_ids) > MAX_REDRIVEN)
    done.too_large = await dead_letters.count_larger_open(database, visible, wanted, than_bytes=at_most_bytes)
    for position, letter_id in enumerate(letter_ids[:MAX_REDRIVEN]):
        await _wait_until(began + position / PER_SECOND)
        if monotonic() - began > WITHIN_S:
            done.are_more_left = True
            break
        try:
            done.redriven += await _redrive(database, visible, letter_id, by=by, message_limits=message_limits)
        except RequestError as error:
            match error.slug:
                case "dead-letter-too-large":
                    done.too_large += 1
                case "dead-letter-unreadable":
                    done.unreadable += 1
                case _:
                    raise
        await failpoints.reach("dead_letters.after_redrive")
    return done


async def _wait_until(time: float) -> None:
    if (wait_s := time - monotonic()) > 0:
        async with pause_turn():
            await asyncio.sleep(wait_s)


async def _redrive(
    database: Database, visible: Sequence[str | None], letter_id: str, *, by: str, message_limits: MessageLimits
) -> bool:
    """Redrive a letter; return False if it is not open any more."""

    async def redrive(session: MongoSession) -> bool:
        letter = await dead_letters.find(database, visible, letter_id, session=session)
        if letter is None or letter.discarded_at is not None:
            return False
        return await send_once(database, session, letter, by=by, message_limits=message_limits)

    return await commit_change(database, redrive)
