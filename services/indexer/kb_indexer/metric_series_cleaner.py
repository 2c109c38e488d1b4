"""Drops the metric series of deleted KBs: a replica without work for a KB does not notice its deletion otherwise."""

import asyncio

import structlog
from pymongo.errors import PyMongoError

from kb_shared.mongo import knowledge_bases
from kb_shared.mongo.database import Database
from kb_shared.observability.metrics import forget_knowledge_base, knowledge_bases_with_series

log = structlog.get_logger()


class MetricSeriesCleaner:
    """Drops the metric series of KBs that no longer exist, in this process."""

    def __init__(self, database: Database, *, interval_s: float) -> None:
        self._database = database
        self._interval_s = interval_s

    async def run(self) -> None:
        """Drop series of deleted KBs regularly, until cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.drop()
            except PyMongoError as error:
                log.warning("series.drop_failed", error=type(error).__name__)

    async def drop(self) -> None:
        """Drop the series of KBs that do not exist any more."""
        with_series = knowledge_bases_with_series()
        for kb_id in with_series - await knowledge_bases.find_existing_ids(self._database, with_series):
            forget_knowledge_base(kb_id)
