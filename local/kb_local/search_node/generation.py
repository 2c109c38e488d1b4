"""An index built by one version of its definition."""

import asyncio
import datetime as dt
import logging
import time
from dataclasses import dataclass
from enum import StrEnum

from bson.timestamp import Timestamp
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from kb_local.search_node.change_feed import RETRY_S, ChangeFeed, Namespace, RawDocument
from kb_local.search_node.definitions import IndexDefinition
from kb_local.search_node.refresh import Delays, RefreshQueue, RowChange
from kb_local.search_node.text_definitions import TextDefinition
from kb_local.search_node.text_index import TextIndex
from kb_local.search_node.vector_index import VectorIndex

log = logging.getLogger(__name__)

SCAN_BATCH = 200
# After so many documents of a scan the event loop serves clients.
SCAN_SLICE = 25
# Of the time that a build is told to take at least.
PENDING_SHARE = 0.2


class GenerationState(StrEnum):
    PENDING = "PENDING"
    BUILDING = "BUILDING"
    READY = "READY"
    STALE = "STALE"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class DefinitionVersion:
    number: int
    definition: IndexDefinition
    created_at: dt.datetime


BuiltIndex = VectorIndex | TextIndex


class Generation:
    """Built from a scan of the collection and the changes since, then kept current by `offer`.

    Args:
        recovering: an index that could be queried before; its rebuilding is not delayed on purpose.
    """

    def __init__(
        self, version: DefinitionVersion, *, delays: Delays, index_name: str, recovering: bool = False
    ) -> None:
        self.version = version
        self.state = GenerationState.PENDING
        self.message: str | None = None
        self.recovering = recovering
        self.index = _empty_index(version.definition)
        self.built = asyncio.Event()
        self._delays = delays
        self._queue = RefreshQueue(delays, index_name=f"{index_name}/{version.number}")

    @property
    def deleted_but_indexed(self) -> int:
        """Return how many deleted documents it may still find, as far as the node knows."""
        return self._queue.deletions

    def push_change(self, change: RowChange) -> None:
        """Take a change of the collection; it becomes searchable now or at a later refresh."""
        self._queue.push(change)
        if self.state in (GenerationState.READY, GenerationState.STALE) and self._delays.immediate:
            self._apply(self._queue.take_all())

    async def build(
        self, collection: AsyncCollection[RawDocument], feed: ChangeFeed, *, slots: asyncio.Semaphore
    ) -> None:
        """Return when the index is built, or can't be (then it is FAILED). Waits for a mongod that is away."""
        began = time.monotonic()
        build_time_s = 0.0 if self.recovering else self._queue.build_time_s()
        await asyncio.sleep(build_time_s * PENDING_SHARE)
        while self.state is not GenerationState.READY:
            try:
                async with slots:
                    await self._scan(collection, feed)
                await asyncio.sleep(began + build_time_s - time.monotonic())
                await feed.catch_up()
                self._become_ready()
            except PyMongoError as error:
                log.warning("build.interrupted error=%s", type(error).__name__)
                await asyncio.sleep(RETRY_S)

    def fail(self, error: Exception) -> None:
        self.state, self.message = GenerationState.FAILED, type(error).__name__
        self.built.set()

    async def refresh_forever(self) -> None:
        """Let waiting changes become searchable, refresh by refresh; returns at once when that happens in `offer`."""
        while not self._delays.immediate:
            await asyncio.sleep(self._queue.until_next_refresh_s())
            self._apply(self._queue.refresh(time.time()))

    async def _scan(self, collection: AsyncCollection[RawDocument], feed: ChangeFeed) -> None:
        await feed.watch(Namespace(collection.database.name, collection.name))
        self.state = GenerationState.BUILDING
        self.index = _empty_index(self.version.definition)
        self._scanned_from: Timestamp = (await collection.database.command("hello"))["operationTime"]
        names = self.version.definition.top_fields
        wanted = None if names is None else dict.fromkeys(("_id", *names), 1)
        scanned = 0
        # What a majority has, but no less than is committed now: what an isolated primary has alone is taken back one
        # day, and no event announces it.
        kept = collection.with_options(read_concern=ReadConcern("majority"))
        async with collection.database.client.start_session() as session:
            session.advance_operation_time(self._scanned_from)
            async for document in kept.find({}, wanted, batch_size=SCAN_BATCH, session=session):
                self.index.upsert(document)
                scanned += 1
                if not scanned % SCAN_SLICE:
                    await asyncio.sleep(0)

    def _become_ready(self) -> None:
        self._queue.forget_until(self._scanned_from)
        if self._delays.immediate:
            self._apply(self._queue.take_all())
        self.state = GenerationState.READY
        self.built.set()

    def _apply(self, changes: list[RowChange]) -> None:
        for change in changes:
            if change.document is None:
                self.index.remove(change.document_id)
            else:
                self.index.upsert(change.document)


def _empty_index(definition: IndexDefinition) -> BuiltIndex:
    return TextIndex(definition) if isinstance(definition, TextDefinition) else VectorIndex(definition)
