"""All search indexes of the deployment, and what becomes of them as collections and definitions change."""

import asyncio
import datetime as dt
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from bson import ObjectId
from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

from kb_local.search_node.change_feed import COLLECTION_ENDS, RETRY_S, ChangeFeed, Document, Namespace
from kb_local.search_node.definition_store import DefinitionStore, StoredIndex
from kb_local.search_node.definitions import IndexDefinition, IndexType, type_of
from kb_local.search_node.errors import CommandError, index_not_found, search_error
from kb_local.search_node.generation import BuiltIndex, DefinitionVersion, Generation, State
from kb_local.search_node.refresh import Change, Delays
from kb_local.search_node.search_index import SearchIndex

log = logging.getLogger(__name__)

CONCURRENT_SCANS = 4
DOCUMENT_CHANGES = ("insert", "update", "replace", "delete")
# What Atlas calls the state of an index that can't be queried yet.
INTERNAL_STATES = {State.PENDING: "NOT_STARTED", State.BUILDING: "INITIAL_SYNC", State.FAILED: "FAILED"}


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
    def __init__(self, client: AsyncMongoClient[Document], *, delays: Delays) -> None:
        self._client = client
        self._delays = delays
        self._store = DefinitionStore(client)
        self._feed = ChangeFeed(client, on_event=self._on_event, on_gap=self._on_gap)
        self._indexes: dict[tuple[Namespace, str], SearchIndex] = {}
        self._by_collection: dict[bytes, list[SearchIndex]] = {}
        self._slots = asyncio.Semaphore(CONCURRENT_SCANS)
        # Commands that change definitions go one after the other.
        self._changing = asyncio.Lock()
        self._work: dict[Generation, asyncio.Task[None]] = {}
        self._background: set[asyncio.Task[None]] = set()
        self.loaded = asyncio.Event()

    async def run(self) -> None:
        """Load the stored definitions and keep all indexes current, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._load())
            tasks.create_task(self._feed.run())

    async def close(self) -> None:
        tasks = [*self._work.values(), *self._background]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def find(self, namespace: Namespace, name: str) -> BuiltIndex | None:
        """Return the index that answers queries, or None when there is none of that name.

        Waits for one that is being loaded after a restart of the node, which on a real deployment nobody would notice.

        Raises:
            CommandError: the index was never built yet.
        """
        await self.loaded.wait()
        while (index := self._indexes.get((namespace, name))) is not None:
            if not index.queryable:
                state = INTERNAL_STATES[State(index.status)]
                kind = "vector" if type_of(index.latest.definition) == "vectorSearch" else "search"
                raise search_error(f"cannot query {kind} index {name} while in state {state}")
            if index.main is not None and index.main.built.is_set():
                return index.main.index
            if index.main is not None:
                await index.main.built.wait()
        return None

    def still_found(self, namespace: Namespace, name: str) -> int:
        """How many documents an index may find that are gone by now."""
        index = self._indexes.get((namespace, name))
        return 0 if index is None or index.main is None else index.main.still_found

    async def listing(self, namespace: Namespace, selector: Selector) -> list[Document]:
        await self.loaded.wait()
        return [index.describe() for index in self._of(namespace) if selector.matches(index)]

    async def type_of(self, namespace: Namespace, selector: Selector) -> IndexType:
        return type_of((await self._the(namespace, selector)).latest.definition)

    async def create(self, namespace: Namespace, requests: list[IndexRequest]) -> list[SearchIndex]:
        """Return the requested indexes; one that exists already with the same definition is left alone."""
        async with self._changing:
            await self.loaded.wait()
            collection_id = await self._store.collection_id(namespace)
            if collection_id is None:
                raise CommandError(26, "NamespaceNotFound", f"Collection '{namespace}' does not exist.")
            self._forget_predecessors(namespace, collection_id)
            for request in requests:
                self._check_same_definition(namespace, request)
            return [await self._ensure(namespace, collection_id, request) for request in requests]

    async def update(self, namespace: Namespace, selector: Selector, definition: IndexDefinition) -> None:
        """Build the index anew by another definition; the one before serves until that is done."""
        async with self._changing:
            index = await self._the(namespace, selector)
            if index.latest.definition == definition:
                return
            latest = _version(index.latest.number + 1, definition)
            await self._store.set_latest(index.id, latest)
            # At once from here on: no list may show the new version as READY before it is built.
            index.latest = latest
            self._retire(index, index.staged)
            self._stage(index)

    async def drop(self, namespace: Namespace, selector: Selector) -> None:
        async with self._changing:
            index = await self._the(namespace, selector)
            self._forget(index)
            await self._store.remove(index.id)

    def _of(self, namespace: Namespace) -> list[SearchIndex]:
        return [index for (owner, _), index in self._indexes.items() if owner == namespace]

    async def _the(self, namespace: Namespace, selector: Selector) -> SearchIndex:
        await self.loaded.wait()
        for index in self._of(namespace):
            if selector.matches(index):
                return index
        wanted = f"name {selector.name}" if selector.name is not None else f"id {selector.id}"
        raise index_not_found(wanted, namespace)

    def _check_same_definition(self, namespace: Namespace, request: IndexRequest) -> None:
        existing = self._indexes.get((namespace, request.name))
        if existing is not None and existing.latest.definition != request.definition:
            raise CommandError(
                68,
                "IndexAlreadyExists",
                f"Index {request.name} already exists with a different definition. Drop it first if needed.",
            )

    async def _ensure(self, namespace: Namespace, collection_id: bytes, request: IndexRequest) -> SearchIndex:
        existing = self._indexes.get((namespace, request.name))
        if existing is not None:
            return existing
        index = SearchIndex(ObjectId(), namespace, collection_id, request.name, _version(0, request.definition))
        await self._store.add(index)
        self._register(index)
        self._stage(index)
        return index

    def _forget_predecessors(self, namespace: Namespace, collection_id: bytes) -> None:
        """Forget the indexes of a dropped collection of that name whose `drop` event is still on its way."""
        for index in self._of(namespace):
            if index.collection_id != collection_id:
                self._forget(index)
                self._erase(index)

    async def _load(self) -> None:
        while True:
            try:
                stored = await self._store.load()
                alive = [await self._store.collection_id(one.index.namespace) for one in stored]
                break
            except PyMongoError as error:
                log.warning("load.waiting error=%s", type(error).__name__)
                await asyncio.sleep(RETRY_S)
        for one, collection_id in zip(stored, alive, strict=True):
            self._restore(one, collection_id)
        self.loaded.set()

    def _restore(self, stored: StoredIndex, collection_id: bytes | None) -> None:
        index = stored.index
        if index.collection_id != collection_id:
            # Its collection was dropped while the node was away.
            self._erase(index)
            return
        self._register(index)
        if stored.main is not None:
            index.main = self._start(index, stored.main, recovering=True)
        if stored.main is None or stored.main.number != index.latest.number:
            self._stage(index)

    def _register(self, index: SearchIndex) -> None:
        self._indexes[index.namespace, index.name] = index
        self._by_collection.setdefault(index.collection_id, []).append(index)

    def _forget(self, index: SearchIndex) -> None:
        self._indexes.pop((index.namespace, index.name), None)
        siblings = self._by_collection[index.collection_id]
        siblings.remove(index)
        if not siblings:
            del self._by_collection[index.collection_id]
        if not self._of(index.namespace):
            self._feed.uncover(index.namespace)
        for generation in list(index.generations):
            self._retire(index, generation)

    def _stage(self, index: SearchIndex) -> None:
        index.staged = self._start(index, index.latest)

    def _start(self, index: SearchIndex, version: DefinitionVersion, *, recovering: bool = False) -> Generation:
        full_name = f"{index.namespace}/{index.name}"
        generation = Generation(version, delays=self._delays, index_name=full_name, recovering=recovering)
        index.generations.append(generation)
        self._work[generation] = asyncio.create_task(self._tend(index, generation))
        return generation

    async def _tend(self, index: SearchIndex, generation: Generation) -> None:
        """Build a generation, let it answer, and keep it current."""
        collection = self._client[index.namespace.database][index.namespace.collection]
        try:
            await generation.build(collection, self._feed, self._slots)
            if not generation.recovering:
                await _until_done(lambda: self._store.set_main(index.id, generation.version))
            self._retire(index, index.promote(generation))
            await generation.keep_refreshing()
        except Exception as error:  # noqa: BLE001  # one index fails, all others go on
            log.error("index.failed error=%s", type(error).__name__)  # noqa: TRY400  # its text may quote a document
            generation.fail(error)

    def _retire(self, index: SearchIndex, generation: Generation | None) -> None:
        if generation is None:
            return
        index.generations.remove(generation)
        self._work.pop(generation).cancel()
        generation.built.set()

    def _on_event(self, event: Document) -> None:
        indexes = self._by_collection.get(bytes(event.get("collectionUUID", b"")), ())
        kind = event["operationType"]
        if kind in DOCUMENT_CHANGES:
            change = Change(
                document_id=event["documentKey"]["_id"],
                document=event.get("fullDocument"),
                committed_at=int(event["wallTime"]) / 1000,
                cluster_time=event["clusterTime"],
            )
            for index in indexes:
                index.offer(change)
        elif kind in COLLECTION_ENDS:
            replaced = event.get("operationDescription", {}).get("dropTarget", b"")
            for index in [*indexes, *self._by_collection.get(bytes(replaced), ())]:
                self._forget(index)
                self._erase(index)

    def _on_gap(self) -> None:
        """Changes may have been missed: build everything anew; what was built serves meanwhile."""
        log.warning("feed.gap indexes=%d", len(self._indexes))
        for index in self._indexes.values():
            for generation in list(index.generations):
                if generation is index.staged:
                    self._retire(index, generation)
                    self._stage(index)
                elif generation is index.main and generation.built.is_set():
                    generation.state = State.STALE
                    self._start(index, generation.version, recovering=True)
                elif generation is index.main:
                    index.main = self._start(index, generation.version, recovering=True)
                    self._retire(index, generation)
                else:
                    self._retire(index, generation)

    def _erase(self, index: SearchIndex) -> None:
        """Remove the stored definition in the background."""
        task = asyncio.create_task(_until_done(lambda: self._store.remove(index.id)))
        self._background.add(task)
        task.add_done_callback(self._background.discard)


async def _until_done(work: Callable[[], Awaitable[None]]) -> None:
    """Repeat idempotent work until mongod is there to do it."""
    while True:
        try:
            return await work()
        except PyMongoError:
            await asyncio.sleep(RETRY_S)


def _version(number: int, definition: IndexDefinition) -> DefinitionVersion:
    return DefinitionVersion(number, definition, dt.datetime.now(dt.UTC))
