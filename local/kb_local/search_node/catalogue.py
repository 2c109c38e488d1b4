"""All search indexes of the deployment. It follows changes of collections and definitions."""

import asyncio
import datetime as dt
import logging
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from bson import ObjectId
from pymongo import AsyncMongoClient
from pymongo.errors import DuplicateKeyError

from kb_local.search_node.builds import IndexBuilds
from kb_local.search_node.change_feed import COLLECTION_ENDS, ChangeFeed, Namespace, RawDocument
from kb_local.search_node.definition_store import DefinitionStore, StoredIndex, until_done
from kb_local.search_node.definitions import IndexDefinition, IndexType, type_of
from kb_local.search_node.dropped_indexes import DroppedIndexes
from kb_local.search_node.errors import CommandError, index_not_found, search_error
from kb_local.search_node.generation import BuiltIndex, DefinitionVersion, GenerationState
from kb_local.search_node.index_table import IndexTable
from kb_local.search_node.refresh import Delays, RowChange
from kb_local.search_node.search_index import SearchIndex

log = logging.getLogger(__name__)

DOCUMENT_CHANGES = ("insert", "update", "replace", "delete")
# What Atlas calls the state of an index that can't be queried yet.
INTERNAL_STATES = {
    GenerationState.BUILDING: "INITIAL_SYNC",
    GenerationState.FAILED: "FAILED",
}


class IndexRequest(NamedTuple):
    name: str
    definition: IndexDefinition


class Selector(NamedTuple):
    """Names one index of a collection, or with neither given all of them."""

    name: str | None = None
    id: str | None = None

    def matches(self, index: SearchIndex) -> bool:
        return self.name in (None, index.name) and self.id in (None, str(index.id))


class Catalogue:
    """The indexes as this node has them.

    Definitions are rows in the deployment. Where several nodes serve it (`shared`), each adopts the rows of the others:
    it learns of a row by the change stream, and before it answers a command about indexes, or a search in
    one that it does not know, it reads the rows of that collection.
    """

    def __init__(self, client: AsyncMongoClient[RawDocument], *, delays: Delays, shared: bool) -> None:
        self._shared = shared
        self._delays = delays
        self._store = DefinitionStore(client)
        self._feed = ChangeFeed(client, on_event=self._on_event, on_definition=self._on_definition, on_gap=self._on_gap)
        self._builds = IndexBuilds(client, store=self._store, feed=self._feed, delays=delays)
        self._table = IndexTable()
        self._dropped = DroppedIndexes(delays.lag_s)
        # Commands that change definitions go one after the other.
        self._changing = asyncio.Lock()
        # Ids never return, so that a row read before its removal is known to be old.
        self._removed: set[ObjectId] = set()
        self._to_read: asyncio.Queue[ObjectId | None] = asyncio.Queue()
        self._background: set[asyncio.Task[None]] = set()
        self.loaded = asyncio.Event()

    async def run(self) -> None:
        """Load the stored definitions and keep all indexes current, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_definitions())
            tasks.create_task(self._feed.run())
            if self._delays.status_s:
                tasks.create_task(self._publish_statuses())

    async def _publish_statuses(self) -> None:
        while True:
            await asyncio.sleep(self._delays.status_s)
            for index in self._table.all:
                index.publish()

    async def close(self) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._builds.close()

    async def find(self, namespace: Namespace, name: str) -> BuiltIndex | None:
        """Return the index that answers queries, or None when there is none of that name.

        Waits for one that could be queried before and is not built here yet: after a restart of the node, or because
        another node was faster. A real deployment shows no such gap.

        Also none while no node has begun to build it: a real deployment needs a second to notice a new index.

        Raises:
            CommandError: the index was never built yet.
        """
        await self.loaded.wait()
        if (index := self._table.named(namespace, name)) is None or not index.queryable:
            await self._load_changes_of_others(namespace)
        if self._table.named(namespace, name) is None:
            return self._dropped.find(namespace, name)
        while (index := self._table.named(namespace, name)) is not None:
            if not index.queryable:
                if index.status == GenerationState.PENDING:
                    return None
                state = INTERNAL_STATES[GenerationState(index.status)]
                kind = "vector" if type_of(index.latest.definition) == "vectorSearch" else "search"
                raise search_error(f"cannot query {kind} index {name} while in state {state}")
            if index.main is not None and index.main.built.is_set():
                return index.main.index
            if index.main is not None:
                await index.main.built.wait()
        return None

    def deleted_but_indexed(self, namespace: Namespace, name: str) -> int:
        """Return how many deleted documents an index may still find."""
        index = self._table.named(namespace, name)
        return 0 if index is None or index.main is None else index.main.deleted_but_indexed

    async def listing(self, namespace: Namespace, selector: Selector) -> list[RawDocument]:
        await self.loaded.wait()
        await self._load_changes_of_others(namespace)
        is_delayed = self._delays.status_s > 0
        return [
            index.describe(is_delayed=is_delayed)
            for index in self._table.list_indexes(namespace)
            if selector.matches(index)
        ]

    async def type_of(self, namespace: Namespace, selector: Selector) -> IndexType:
        return type_of((await self._find_one(namespace, selector)).latest.definition)

    async def create(self, namespace: Namespace, requests: list[IndexRequest]) -> list[SearchIndex]:
        """Return the requested indexes; one that exists already with the same definition is left alone."""
        async with self._changing:
            await self.loaded.wait()
            await self._load_changes_of_others(namespace)
            collection_id = await self._store.collection_id(namespace)
            if collection_id is None:
                raise CommandError(26, "NamespaceNotFound", f"Collection '{namespace}' does not exist.")
            self._forget_predecessors(namespace, collection_id)
            for request in requests:
                self._check_same_definition(namespace, request)
            return [await self._ensure(namespace, collection_id, request=request) for request in requests]

    async def update(self, namespace: Namespace, selector: Selector, *, definition: IndexDefinition) -> None:
        """Build the index again, also by an equal definition; the one before serves until that is done."""
        async with self._changing:
            index = await self._find_one(namespace, selector)
            while True:
                latest = _version(index.latest.number + 1, definition)
                if await self._store.set_latest(index.id, latest):
                    # At once: no list may show the new version as READY before it is built.
                    self._adopt_latest(index, latest)
                    return
                # Another node has changed or removed it since it was read.
                await self._reload(namespace)
                index = await self._find_one(namespace, selector)

    async def drop(self, namespace: Namespace, selector: Selector) -> None:
        async with self._changing:
            index = await self._find_one(namespace, selector)
            await self._store.remove(index.id)
            if index.main is not None and index.main.built.is_set():
                self._dropped.add(index, index.main.index)
            self._forget(index.id)

    async def _find_one(self, namespace: Namespace, selector: Selector) -> SearchIndex:
        await self.loaded.wait()
        await self._load_changes_of_others(namespace)
        for index in self._table.list_indexes(namespace):
            if selector.matches(index):
                return index
        wanted = f"name {selector.name}" if selector.name is not None else f"id {selector.id}"
        raise index_not_found(wanted, namespace)

    def _check_same_definition(self, namespace: Namespace, request: IndexRequest) -> None:
        existing = self._table.named(namespace, request.name)
        if existing is not None and existing.latest.definition != request.definition:
            raise CommandError(
                68,
                "IndexAlreadyExists",
                f"Index {request.name} already exists with a different definition. Drop it first if needed.",
            )

    async def _ensure(self, namespace: Namespace, collection_id: bytes, *, request: IndexRequest) -> SearchIndex:
        existing = self._table.named(namespace, request.name)
        if existing is not None:
            return existing
        index = SearchIndex(ObjectId(), namespace, collection_id, request.name, _version(0, request.definition))
        try:
            await self._store.add(index)
        except DuplicateKeyError:
            # Another node was faster.
            await self._reload(namespace)
            self._check_same_definition(namespace, request)
            return await self._ensure(namespace, collection_id, request=request)
        self._adopt(StoredIndex(index, main=None))
        return self._table.with_id(index.id) or index

    def _forget_predecessors(self, namespace: Namespace, collection_id: bytes) -> None:
        """Forget the indexes of a dropped collection of that name whose `drop` event is still on its way."""
        for index in self._table.list_indexes(namespace):
            if index.collection_id != collection_id:
                self._forget_and_remove(index)

    async def _follow_definitions(self) -> None:
        """Load all definitions, then take over what changes."""
        # Whatever is written after the load is in the stream.
        await until_done(self._feed.catch_up)
        await until_done(self._read_all)
        self.loaded.set()
        while True:
            changed = await self._to_read.get()
            await until_done(self._read_all if changed is None else partial(self._read_one, changed))

    async def _read_all(self) -> None:
        known = self._table.all
        await self._reconcile(known, await self._store.load())

    async def _load_changes_of_others(self, namespace: Namespace) -> None:
        """Load the changes of other nodes to the indexes of a collection."""
        if self._shared:
            await self._reload(namespace)

    async def _reload(self, namespace: Namespace) -> None:
        known = self._table.list_indexes(namespace)
        await self._reconcile(known, await self._store.list_indexes(namespace))

    async def _read_one(self, index_id: ObjectId) -> None:
        known = self._table.with_id(index_id)
        await self._reconcile([known] if known else [], await self._store.with_id(index_id))

    async def _reconcile(self, known: Iterable[SearchIndex], rows: list[StoredIndex]) -> None:
        """Make this node's indexes what the rows say.

        Args:
            known: indexes from before the rows were read; those that are not among the rows have been removed.
            rows: as they were read.
        """
        remaining = {row.index.id for row in rows}
        for index in known:
            if index.id not in remaining:
                self._forget(index.id)
        for row in rows:
            index = row.index
            if await self._store.collection_id(index.namespace) == index.collection_id:
                self._adopt(row)
            else:
                # Its collection was dropped while no node was running.
                await self._store.remove(index.id)
                self._forget(index.id)

    def _adopt(self, stored: StoredIndex) -> None:
        """Adopt a stored index; newer state of this node stays."""
        if stored.index.id in self._removed:
            return
        index = self._table.with_id(stored.index.id)
        if index is None:
            index = stored.index
            self._forget_predecessors(index.namespace, index.collection_id)
            self._table.add(index)
            if stored.main is None or stored.main.number != index.latest.number:
                self._builds.stage(index)
        self._adopt_latest(index, stored.index.latest)
        if stored.main is not None and index.main is None:
            self._builds.recover(index, stored.main)

    def _adopt_latest(self, index: SearchIndex, latest: DefinitionVersion) -> None:
        if latest.number > index.latest.number:
            index.latest = latest
            self._builds.stage(index)

    def _forget(self, index_id: ObjectId) -> None:
        self._removed.add(index_id)
        index = self._table.with_id(index_id)
        if index is None:
            return
        self._table.remove(index)
        if not self._table.list_indexes(index.namespace):
            self._feed.unwatch(index.namespace)
        for generation in list(index.generations):
            self._builds.retire(index, generation)

    def _forget_and_remove(self, index: SearchIndex) -> None:
        """Forget an index whose collection is gone, and remove its definition in the background."""
        self._forget(index.id)
        task = asyncio.create_task(until_done(lambda: self._store.remove(index.id)))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _on_definition(self, index_id: ObjectId) -> None:
        if self._shared:
            self._to_read.put_nowait(index_id)

    def _on_event(self, event: RawDocument) -> None:
        indexes = self._table.of_collection(bytes(event.get("collectionUUID", b"")))
        kind = event["operationType"]
        if kind in DOCUMENT_CHANGES:
            change = RowChange(
                document_id=event["documentKey"]["_id"],
                document=event.get("fullDocument"),
                committed_at=int(event["wallTime"]) / 1000,
                cluster_time=event["clusterTime"],
            )
            for index in indexes:
                index.push_change(change)
        elif kind in COLLECTION_ENDS:
            replaced = event.get("operationDescription", {}).get("dropTarget", b"")
            for index in [*indexes, *self._table.of_collection(bytes(replaced))]:
                self._forget_and_remove(index)

    def _on_gap(self) -> None:
        """Build everything again, because changes may have been missed; what was built serves meanwhile."""
        log.warning("feed.gap indexes=%d", len(self._table.all))
        for index in self._table.all:
            self._builds.rebuild(index)
        if self._shared:
            self._to_read.put_nowait(None)


def _version(number: int, definition: IndexDefinition) -> DefinitionVersion:
    return DefinitionVersion(number, definition, dt.datetime.now(dt.UTC))
