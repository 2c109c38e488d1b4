"""Notes when API keys were last used, in the background and at most once a minute for each key."""

import asyncio
from datetime import UTC, datetime
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.concurrency.concurrent_tasks import run_all
from kb_shared.mongo import api_keys
from kb_shared.mongo.api_keys import ApiKey
from kb_shared.mongo.database import Database

INTERVAL_S: Final = 60.0
_MOST_KNOWN: Final = 10_000

_log = structlog.get_logger()


class KeyUse:
    """Updates `last_used_at` of API keys. There is one in each application."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._noted: BoundedCache[str, bool] = BoundedCache(_MOST_KNOWN, lifetime_s=INTERVAL_S)
        self._writing: set[asyncio.Task[None]] = set()

    def note(self, key: ApiKey) -> None:
        """Note that a key was used, and return at once."""
        if self._noted.find(key.key_id):
            return
        self._noted.put(key.key_id, value=True)
        task = asyncio.create_task(self._write(key, datetime.now(UTC)))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def close(self) -> None:
        """Wait until the writes in progress have ended."""
        await run_all(self._writing)

    async def _write(self, key: ApiKey, at: datetime) -> None:
        try:
            await api_keys.note_use(self._database, key, at=at)
        except PyMongoError as error:
            _log.warning("api_key.write_failed", key_id=key.key_id, error=type(error).__name__)
