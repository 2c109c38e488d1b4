"""Asks the embedding model of a KB how many dimensions its vectors have: a step in the life of the KB of entries.

The service `knowledge` stores this KB without asking, so that entries can be written while the model is away.
"""

import asyncio
from datetime import timedelta
from typing import Final

import structlog

from kb_shared.embedding.embedder import Embedder
from kb_shared.embedding.purchases import Purpose
from kb_shared.errors import KbError, KnowledgeBaseNotReady
from kb_shared.mongo import index_jobs, knowledge_bases
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status

WITHIN_S: Final = 10.0
"""Seconds to wait for the model: other KBs wait meanwhile."""
AGAIN_AFTER: Final = timedelta(seconds=15)

_log = structlog.get_logger()


class DimensionDetection:
    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def detect(self, database: Database, kb: KnowledgeBase) -> bool:
        """Ask the model and store its answer; return False if it does not answer, and ask again later."""
        try:
            async with asyncio.timeout(WITHIN_S):
                detected = await self._embedder.detect_vectors(
                    model=kb.embedding_model, purpose=Purpose(kb.organization_id, None, "index", "document")
                )
        except TimeoutError:
            return await self._postpone(database, kb, reason="it did not answer in time")
        except KbError as error:
            return await self._postpone(database, kb, reason=str(error))
        known = await knowledge_bases.set_vectors(
            database,
            kb,
            dimensions=detected.dimensions,
            fingerprint=detected.origin.fingerprint,
            sample=detected.origin.sample,
        )
        # After a crash before this, they are retried in some seconds all the same.
        waiting = KnowledgeBaseNotReady().error_type
        await index_jobs.make_due(database, kb.organization_id, error_type=waiting, kb_id=kb.kb_id)
        return known

    async def _postpone(self, database: Database, kb: KnowledgeBase, *, reason: str) -> bool:
        explanation = f"The embedding model can't be asked for its dimensions: {reason}. It is asked again."
        await knowledge_bases.set_status(database, kb, kb.status, only_from=Status.CREATING, reason=explanation)
        await knowledge_bases.postpone_check(database, kb, after=AGAIN_AFTER)
        _log.warning("knowledge_base.dimensions_unknown", kb_id=kb.kb_id)
        return False
