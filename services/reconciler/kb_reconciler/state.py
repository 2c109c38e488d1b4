"""`reconciler_state`: one row with what passes have covered, so that the next pass and the next leader continue there.

Each leader increments the token and writes only while it is the newest: a leader that lost its lease without noticing
changes nothing here.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pymongo import ReturnDocument

from kb_reconciler.drift.kinds import Comparison
from kb_shared.mongo.database import Database
from kb_shared.mongo.rows import RowMapper

NAME = "reconciler_state"
_ID: Final = "reconciler"


@dataclass(frozen=True, slots=True)
class ReconcilerState:
    token: int
    """Fencing token of the leader that read this state."""
    compared_until: datetime | None = None
    """Time before which all changes of documents were compared."""
    unfinished: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Ids of the KBs that the next pass compares once more, by comparison."""
    full_pass_due_at: datetime | None = None
    leftovers: Mapping[str, datetime] = field(default_factory=dict)
    """Times at which data of KBs that do not exist was found first, by kind and KB."""

    def find_unfinished(self, kb_id: str) -> frozenset[Comparison]:
        """Return the comparisons that the next pass makes in a KB once more."""
        return frozenset(comparison for comparison in Comparison if kb_id in self.unfinished.get(comparison, ()))


def _read_unfinished(stored: Mapping[str, Collection[str]] | Collection[str]) -> Mapping[str, Collection[str]]:
    """Read the field, which earlier versions stored as one list for the comparison of chunks."""
    if isinstance(stored, Mapping):
        return stored
    return dict.fromkeys((Comparison.MEMBERSHIP, Comparison.CHUNKS), stored)


_ROWS: Final = RowMapper(ReconcilerState, convert={"unfinished": _read_unfinished})


class LeadershipLost(Exception):
    """Another replica has become the leader: end the pass."""


async def begin(database: Database) -> ReconcilerState:
    """Become the leader with the newest token; return the stored state."""
    row = await database[NAME].find_one_and_update(
        {"_id": _ID}, {"$inc": {"token": 1}}, upsert=True, return_document=ReturnDocument.AFTER
    )
    assert row is not None
    return _ROWS.read(row)


async def check(database: Database, state: ReconcilerState) -> None:
    """Raise LeadershipLost if another leader has begun since."""
    if await database[NAME].find_one({"_id": _ID, "token": state.token}, {"_id": 1}) is None:
        raise LeadershipLost


async def save(database: Database, state: ReconcilerState, **fields: Any) -> None:
    """Store `fields` of the state.

    Raises:
        LeadershipLost: another leader has begun since; nothing was stored.
    """
    saved = await database[NAME].update_one({"_id": _ID, "token": state.token}, {"$set": fields})
    if not saved.matched_count:
        raise LeadershipLost
