"""Reads for decisions: only data that a majority has, and everything that this process has written before.

A primary that is cut off from its secondaries continues to answer, and a plain read returns writes that are lost when
it dies. A majority read does not. But just after an election it may miss a write that was acknowledged before. So these
reads also wait for the newest operation time that this process has seen, which the driver sends as `afterClusterTime`.
On the primary that acknowledged the write, they don't have to wait.

The read concern is not set on the client, because the search stages of Atlas accept only `local`.
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
"""Election of the primary that a majority has confirmed, by client; None for a deployment without a replica set."""

_ANY: Final = "leases"
"""Small collection, read only for the operation time."""


@asynccontextmanager
async def majority_reads(
    database: AsyncDatabase[dict[str, Any]],
) -> AsyncIterator[AsyncDatabase[dict[str, Any]]]:
    """Yield `database` with majority reads, which include all writes in earlier `seen_by_later_reads` blocks.

    Commands in the block run one after another, because they share a session, which need not be passed. A read without
    a majority fails at the deadline of the client.
    """
    async with _session(database) as session:
        newest = _newest.get(database.client)
        if newest is not None:
            session.advance_operation_time(newest)
        yield database.with_options(read_concern=MAJORITY)


@asynccontextmanager
async def seen_by_later_reads(database: AsyncDatabase[dict[str, Any]]) -> AsyncIterator[None]:
    """Make later majority reads include the writes of this block. Commands in it run one after another."""
    async with _session(database):
        yield


@asynccontextmanager
async def _session(database: AsyncDatabase[dict[str, Any]]) -> AsyncIterator[AsyncClientSession]:
    async with database.client.start_session(causal_consistency=True) as session, session.bind(end_session=False):
        try:
            yield session
        finally:
            # Also after an error: at worst, later reads wait until a majority has this time.
            include_in_later_reads(session)


def include_in_later_reads(session: AsyncClientSession) -> None:
    """Make later majority reads include everything that `session` has read and written."""
    seen = session.operation_time
    if seen is not None and seen > _newest.get(session.client, Timestamp(0, 0)):
        _newest[session.client] = seen


class PrimaryChanged(TransientError):
    """Another primary was elected during a read: the snapshot may miss acknowledged writes. Read again."""


@asynccontextmanager
async def current_snapshot(database: AsyncDatabase[dict[str, Any]]) -> AsyncIterator[AsyncClientSession]:
    """Yield a session that reads one snapshot, which includes everything acknowledged before this call.

    A new primary returns snapshots from before its election until a majority has confirmed its first write (up to a
    second was measured). So the first snapshot from each primary waits for that; later ones don't wait.

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
