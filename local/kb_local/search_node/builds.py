"""Building the indexes of a node, and keeping them current."""

import asyncio
import logging

from pymongo import AsyncMongoClient

from kb_local.search_node.change_feed import ChangeFeed, RawDocument
from kb_local.search_node.definition_store import DefinitionStore, until_done
from kb_local.search_node.generation import DefinitionVersion, Generation, GenerationState
from kb_local.search_node.refresh import Delays
from kb_local.search_node.search_index import SearchIndex

log = logging.getLogger(__name__)

CONCURRENT_SCANS = 4


class IndexBuilds:
    """Runs a task for each generation of each index."""

    def __init__(
        self, client: AsyncMongoClient[RawDocument], *, store: DefinitionStore, feed: ChangeFeed, delays: Delays
    ) -> None:
        self._client = client
        self._store = store
        self._feed = feed
        self._delays = delays
        self._slots = asyncio.Semaphore(CONCURRENT_SCANS)
        self._tasks: dict[Generation, asyncio.Task[None]] = {}

    async def close(self) -> None:
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def stage(self, index: SearchIndex) -> None:
        """Build the latest version of an index; what it had so far answers until that is done."""
        self.retire(index, index.staged)
        index.staged = self._start(index, index.latest)

    def recover(self, index: SearchIndex, version: DefinitionVersion) -> None:
        """Have a version answer that could be queried before: queries wait until it is built here."""
        if index.staged is not None and index.staged.version.number == version.number:
            index.main, index.staged = index.staged, None
            index.main.recovering = True
        else:
            index.main = self._start(index, version, recovering=True)

    def rebuild(self, index: SearchIndex) -> None:
        """Build everything again, because changes may have been missed; what was built answers meanwhile."""
        for generation in list(index.generations):
            if generation is index.staged:
                self.stage(index)
            elif generation is index.main and generation.built.is_set():
                generation.state = GenerationState.STALE
                self._start(index, generation.version, recovering=True)
            elif generation is index.main:
                index.main = self._start(index, generation.version, recovering=True)
                self.retire(index, generation)
            else:
                self.retire(index, generation)

    def retire(self, index: SearchIndex, generation: Generation | None) -> None:
        if generation is None:
            return
        index.generations.remove(generation)
        self._tasks.pop(generation).cancel()
        generation.built.set()

    def _start(self, index: SearchIndex, version: DefinitionVersion, *, recovering: bool = False) -> Generation:
        full_name = f"{index.namespace}/{index.name}"
        generation = Generation(version, delays=self._delays, index_name=full_name, recovering=recovering)
        index.generations.append(generation)
        self._tasks[generation] = asyncio.create_task(self._build_and_refresh(index, generation))
        return generation

    async def _build_and_refresh(self, index: SearchIndex, generation: Generation) -> None:
        """Build a generation, let it answer, and keep it current."""
        collection = self._client[index.namespace.database][index.namespace.collection]
        try:
            await generation.build(collection, self._feed, slots=self._slots)
            if not generation.recovering:
                await until_done(lambda: self._store.set_main(index.id, generation.version))
            self.retire(index, index.promote(generation))
            await generation.refresh_forever()
        except Exception as error:  # noqa: BLE001  # one index fails, all others go on
            log.error("index.failed error=%s", type(error).__name__)  # noqa: TRY400  # its text may quote a document
            generation.fail(error)
