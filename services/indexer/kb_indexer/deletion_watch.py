"""Interrupts the work for KBs that are deleted meanwhile: it may be waiting for a provider in vain."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_indexer.state_reader import StateReader
from kb_indexer.swap import StaleDecision
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.embedding.embedder import Embedder
from kb_shared.mongo.bulk_lookup import OrganizationKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status

_EVERY_S: Final = 1.0

log = structlog.get_logger()


class KnowledgeBaseDeletionWatch:
    """Interrupts the work of this process for KBs that are deleted."""

    def __init__(self, state_reader: StateReader, embedder: Embedder) -> None:
        self._state_reader = state_reader
        self._embedder = embedder
        self._work: dict[asyncio.Timeout, OrganizationKey] = {}

    @asynccontextmanager
    async def interrupting(self, kb: KnowledgeBase) -> AsyncIterator[None]:
        """Work for `kb` in the block until it is deleted. Calls to its provider are cancelled with its last work.

        Raises:
            StaleDecision: the KB was deleted.
        """
        try:
            async with asyncio.timeout(None) as work:
                self._work[work] = OrganizationKey(kb.organization_id, kb.kb_id)
                try:
                    yield
                finally:
                    del self._work[work]
        except TimeoutError:
            if not work.expired():
                raise
            self._embedder.cancel_calls(kb.kb_id)
            raise StaleDecision from None

    async def run(self) -> None:
        """Look for deleted KBs every second, until cancelled."""
        while True:
            await asyncio.sleep(_EVERY_S)
            try:
                await self.interrupt_deleted()
            except PyMongoError as error:
                log.warning("deletions.check_failed", error=type(error).__name__)

    async def interrupt_deleted(self) -> None:
        """Interrupt the work for KBs that have been deleted."""
        worked_for = set(self._work.values())
        found = await run_all_or_cancel(map(self._state_reader.knowledge_base, worked_for))
        deleted = {
            kb for kb, now in zip(worked_for, found, strict=True) if now is None or now.status is Status.DELETING
        }
        for work, kb in self._work.items():
            if kb in deleted:
                work.reschedule(asyncio.get_running_loop().time())
        for organization_id, kb_id in deleted:
            log.info("indexing.interrupted", organization_id=organization_id, kb_id=kb_id, reason="deleted")
