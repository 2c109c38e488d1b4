"""Reads that a decision may rest on: only what a majority has, and everything that this process has written before.

A primary that is cut off from its secondaries goes on to answer: a plain read returns writes there that are lost when
it dies. A majority read does not, but right after a change of the primary it may be older than a write that was
acknowledged before. Therefore these reads also wait for the newest operation time that this process has seen, which
the driver sends along (`afterClusterTime`). On the primary that acknowledged the write there is nothing to wait for.

Never set on the client: the search stages of Atlas accept read concern `local` only.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from weakref import WeakKeyDictionary

from bson import ObjectId, Timestamp
from pymongo import AsyncMongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.read_concern import ReadConcern

from kb_shared.errors import TransientError

MAJORITY: Final = ReadConcern("majority")

_newest: WeakKeyDictionary[AsyncMongoClient[dict[str, Any]], Timestamp] = WeakKeyDictionary()
"""The newest operation time that each client has seen, of writes in `seen_by_later_reads` and of majority reads."""


_confirmed: WeakKeyDictionary[AsyncMongoClient[dict[str, Any]], ObjectId | None] = WeakKeyDictionary()
"""By client, the election of the primary that a majority has confirmed; none for what is not a replica set."""

_ANY: Final = "leases"
"""Some small collection, to be asked for nothing but the time."""


@asynccontextmanager
async def majority_reads(
    database: AsyncDatabase[dict[str, Any]],
) -> AsyncIterator[AsyncDatabase[dict[str, Any]]]:
    """Give `database` with majority reads, which are no older than what was written in `seen_by_later_reads`.

    Commands in the block follow one another: all are in one session, which need not be passed. A read that waits for
    a majority in vain fails at the deadline of the client.
    """
    async with _session(database) as session:
        newest = _newest.get(database.client)
        if newest is not None:
            session.advance_operation_time(newest)
        yield database.with_options(read_concern=MAJORITY)


@asynccontextmanager
async def seen_by_later_reads(database: AsyncDatabase[dict[str, Any]]) -> AsyncIterator[None]:
    """Have majority reads that begin after this block see what is written in it. Commands in it follow one another."""
    async with _session(database):
        yield


@asynccontextmanager
async def _session(database: AsyncDatabase[dict[str, Any]]) -> AsyncIterator[AsyncClientSession]:
    async with database.client.start_session(causal_consistency=True) as session, session.bind(end_session=False):
        try:
            yield session
        finally:
            # Also after an error: a time that no majority has yet only makes later reads wait for it.
            note(session)


def note(session: AsyncClientSession) -> None:
    """Have later majority reads see all that `session` has seen and written."""
    seen = session.operation_time
    if seen is not None and seen > _newest.get(session.client, Timestamp(0, 0)):
        _newest[session.client] = seen


class PrimaryChanged(TransientError):
    """A snapshot may be older than what was acknowledged before it: read again."""


@asynccontextmanager
async def current_snapshot(database: AsyncDatabase[dict[str, Any]]) -> AsyncIterator[AsyncClientSession]:
    """Give a session whose reads see one moment: no earlier than anything that was acknowledged before this began.

    A new primary reads snapshots from before its election until a majority has confirmed its first write: up to a
    second was measured. So the first snapshot from each primary waits for that; the others cost nothing.

    Raises:
        PrimaryChanged: on leaving, if another primary may have answered.
    """
    client = database.client
    elected = client.topology_description.max_election_id
    if elected != _confirmed.get(client):
        await _confirm(database)
        _confirmed[client] = elected
    async with client.start_session(snapshot=True) as session:
        yield session
    if client.topology_description.max_election_id != elected:
        raise PrimaryChanged("another primary was elected meanwhile")


async def _confirm(database: AsyncDatabase[dict[str, Any]]) -> None:
    """Return once a majority has everything that the primary has."""
    async with _session(database):
        # A plain read tells the newest write of the primary, and the majority read after it waits for that.
        await database[_ANY].find_one({}, {"_id": 1})
        await database.get_collection(_ANY, read_concern=MAJORITY).find_one({}, {"_id": 1})
