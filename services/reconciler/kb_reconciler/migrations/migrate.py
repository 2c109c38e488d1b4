"""Makes the migrations that the stored data lacks, one after the other. Of several reconcilers, the one with the lease.

The services work meanwhile: nothing waits for a migration.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_reconciler.migrations import stored_progress
from kb_reconciler.migrations.migration import Migration
from kb_reconciler.migrations.registry import MIGRATIONS
from kb_reconciler.state import LeadershipLost
from kb_shared.errors import TransientError
from kb_shared.failpoints import reach
from kb_shared.mongo import leases, schema_version
from kb_shared.mongo.database import Database
from kb_shared.observability.metrics import MIGRATIONS_PENDING

LEASE: Final = "migrations"
_LEASE_LENGTH: Final = timedelta(seconds=60)
_ASKED_AGAIN_AFTER_S: Final = 10.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Migrator:
    """Makes migrations in one process."""

    database: Database
    owner: str
    migrations: Sequence[Migration] = MIGRATIONS
    lease_length: timedelta = _LEASE_LENGTH

    async def run(self) -> None:
        """Return once all migrations are finished, by this reconciler or another."""
        while True:
            try:
                if not await self._count_pending():
                    return
                await self.make_pending()
                if not await self._count_pending():
                    return
            except (PyMongoError, TransientError, LeadershipLost) as error:
                log.warning("migration.interrupted", error=type(error).__name__)
            await asyncio.sleep(_ASKED_AGAIN_AFTER_S)

    async def _count_pending(self) -> int:
        pending = len(await self.find_pending())
        MIGRATIONS_PENDING.set(pending)
        return pending

    async def find_pending(self) -> list[Migration]:
        """Return the migrations that the stored data lacks."""
        stored = await schema_version.get(self.database)
        return [each for each in self.migrations if each.version > stored.schema_version]

    async def make_pending(self) -> None:
        """Make the migrations that the data lacks, unless another reconciler makes them.

        Raises:
            LeadershipLost: another reconciler has taken the lease.
        """
        if not await self.find_pending() or not await self._acquire():
            return
        making, renewing = asyncio.ensure_future(self._make_all()), asyncio.ensure_future(self._keep_lease())
        try:
            await asyncio.wait({making, renewing}, return_when=asyncio.FIRST_COMPLETED)
            await (making if making.done() else renewing)
        finally:
            making.cancel()
            renewing.cancel()
            await asyncio.gather(making, renewing, return_exceptions=True)
            await leases.release(self.database, LEASE, owner=self.owner)

    async def _make_all(self) -> None:
        # Read again under the lease: its last holder may just have finished one.
        for migration in await self.find_pending():
            await self._make(migration)

    async def _make(self, migration: Migration) -> None:
        database, owner = self.database, self.owner
        marker = await stored_progress.begin(database, migration, owner=owner)
        bound = log.bind(migration=migration.name, schema_version=migration.version)
        bound.info("migration.started", resumed_after=marker)
        await reach("migration.after_begin")
        while (marker := await migration.migrate_batch(database, marker)) is not None:
            await reach("migration.after_batch")
            await stored_progress.save_marker(database, migration, marker, owner=owner)
            await reach("migration.after_marker")
        await reach("migration.before_finish")
        await stored_progress.finish(database, migration, owner=owner)
        bound.info("migration.finished")

    async def _acquire(self) -> bool:
        return await leases.acquire(self.database, LEASE, owner=self.owner, length=self.lease_length)

    async def _keep_lease(self) -> None:
        """Renew the lease for as long as a batch may take, which may build an index for an hour."""
        while True:
            await asyncio.sleep(self.lease_length.total_seconds() / 3)
            if not await self._acquire():
                raise LeadershipLost
