"""One change stream for the whole deployment, from which all indexes are kept current."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bson import ObjectId
from bson.timestamp import Timestamp
from pymongo import AsyncMongoClient, ReturnDocument
from pymongo.asynchronous.change_stream import AsyncChangeStream
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.write_concern import WriteConcern

log = logging.getLogger(__name__)

RawDocument = dict[str, Any]

# Where the node keeps its own things, in the deployment it serves.
NODE_DATABASE = "__mdb_local_search"
DEFINITIONS = "indexes"
MARKERS = "markers"
MARKER_ID = "marker"

COLLECTION_ENDS = ("drop", "rename")
# The oplog no longer reaches back to the token, the token means nothing to this mongod, or an event is too large.
GAP_CODES = frozenset({260, 280, 286, 10334})
RETRY_S = 0.1
UNINITIATED_RETRY_S = 0.5
LONGEST_WAIT_MS = 1000
# Between two batches the event loop serves clients.
BATCH_EVENTS = 200


class Namespace(NamedTuple):
    database: str
    collection: str

    def __str__(self) -> str:
        return f"{self.database}.{self.collection}"


class ChangeFeed:
    """Follows the collections that `watch` names.

    Args:
        on_event: called with each event, in commit order.
        on_definition: called with the id of each definition that was written or removed.
        on_gap: called when events may have been missed; the stream goes on from now.
    """

    def __init__(
        self,
        client: AsyncMongoClient[RawDocument],
        *,
        on_event: Callable[[RawDocument], None],
        on_definition: Callable[[ObjectId], None],
        on_gap: Callable[[], None],
    ) -> None:
        self._client = client
        self._on_event = on_event
        self._on_definition = on_definition
        self._on_gap = on_gap
        self._token: Mapping[str, Any] | None = None
        self._wanted: set[Namespace] = set()
        self._watched: frozenset[Namespace] = frozenset()
        self._marker_seen = 0
        # How often the stream has begun at the time of its opening instead of where it ended.
        self._beginnings = 0
        self._progress = asyncio.Condition()
        self._markers = client[NODE_DATABASE].get_collection(MARKERS, write_concern=WriteConcern("majority"))

    async def run(self) -> None:
        """Follow the deployment until cancelled, whatever becomes of mongod meanwhile."""
        while True:
            try:
                await self._follow()
            except OperationFailure as error:
                log.warning("feed.interrupted code=%s", error.code)
                if error.code in GAP_CODES:
                    self._token = None
                await asyncio.sleep(RETRY_S)
            except PyMongoError as error:
                log.warning("feed.interrupted error=%s", type(error).__name__)
                await asyncio.sleep(RETRY_S)

    async def watch(self, namespace: Namespace) -> None:
        """Return once every later change of the collection will be delivered."""
        self._wanted.add(namespace)
        # The marker wakes the stream, which sees what it has to reopen for.
        await self._write_marker()
        async with self._progress:
            await self._progress.wait_for(lambda: namespace in self._watched)

    def unwatch(self, namespace: Namespace) -> None:
        """Deliver no changes of the collection any more, at the latest from the next reopening on."""
        self._wanted.discard(namespace)

    async def catch_up(self) -> None:
        """Return once everything committed before the call has been delivered."""
        while True:
            # A marker written before the stream begins, or while it is lost, is never delivered.
            async with self._progress:
                await self._progress.wait_for(lambda: self._beginnings > 0)
            beginnings = self._beginnings
            marker = await self._write_marker()
            async with self._progress:
                await self._progress.wait_for(
                    lambda: self._marker_seen >= marker or self._beginnings > beginnings  # noqa: B023  # awaited here
                )
            if self._marker_seen >= marker:
                return

    async def _write_marker(self) -> int:
        marker: RawDocument | None = await self._markers.find_one_and_update(
            {"_id": MARKER_ID}, {"$inc": {"n": 1}}, upsert=True, return_document=ReturnDocument.AFTER
        )
        if marker is None:
            raise RuntimeError("an upsert returns its document")
        return int(marker["n"])

    async def _follow(self) -> None:
        """Read the stream until a collection has to be added to it."""
        watching = frozenset(self._wanted)
        async with await self._open(watching) as stream:
            await self._publish_progress(watched=watching)
            while watching >= self._wanted:
                event = await stream.try_next()
                self._token = stream.resume_token or self._token
                if event is not None:
                    await self._deliver(event)

    async def _open(self, watching: frozenset[Namespace]) -> AsyncChangeStream[RawDocument]:
        """Open the stream where the last one ended; a new one begins now.

        The server looks up the document of an update only for the collections that pass the filter.
        """
        names = [{"db": name.database, "coll": name.collection} for name in watching]
        names += [{"db": NODE_DATABASE, "coll": name} for name in (MARKERS, DEFINITIONS)]
        wanted = {"$or": [{"ns": {"$in": names}}, {"operationType": {"$in": list(COLLECTION_ENDS)}}]}
        start: dict[str, Any] = {"resume_after": self._token}
        if self._token is None:
            start = {"start_at_operation_time": await self._now()}
        stream = await self._client.watch(
            [{"$match": wanted}],
            full_document="updateLookup",
            show_expanded_events=True,
            max_await_time_ms=LONGEST_WAIT_MS,
            batch_size=BATCH_EVENTS,
            **start,
        )
        if self._token is None:
            self._beginnings += 1
            if self._watched:
                self._on_gap()
        self._token = stream.resume_token
        return stream

    async def _now(self) -> Timestamp:
        """Return the cluster time; waits for a replica set that is not initiated yet."""
        while "operationTime" not in (hello := await self._client.admin.command("hello")):
            log.warning("feed.waiting reason='mongod is no member of an initiated replica set'")
            await asyncio.sleep(UNINITIATED_RETRY_S)
        now: Timestamp = hello["operationTime"]
        return now

    async def _deliver(self, event: RawDocument) -> None:
        if event["ns"]["db"] != NODE_DATABASE:
            self._on_event(event)
            return
        if "documentKey" not in event:
            return
        if event["ns"]["coll"] == DEFINITIONS:
            self._on_definition(event["documentKey"]["_id"])
        elif (marker := _marker(event)) is not None:
            await self._publish_progress(marker=marker)

    async def _publish_progress(
        self, *, watched: frozenset[Namespace] | None = None, marker: int | None = None
    ) -> None:
        async with self._progress:
            self._watched = self._watched if watched is None else watched
            self._marker_seen = self._marker_seen if marker is None else marker
            self._progress.notify_all()


def _marker(event: RawDocument) -> int | None:
    """Return the marker that this event wrote; a document that is looked up later could have a newer one."""
    if event["operationType"] == "update":
        value = event["updateDescription"]["updatedFields"].get("n")
    else:
        value = (event.get("fullDocument") or {}).get("n")
    return None if value is None else int(value)
