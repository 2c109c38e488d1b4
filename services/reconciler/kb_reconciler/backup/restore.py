"""Restores a backup, or a part of it, into an empty database."""

from dataclasses import dataclass

from kb_reconciler.backup import marker as markers
from kb_reconciler.backup.loading import BackupLoader
from kb_reconciler.backup.marker import RestoreMarker
from kb_reconciler.backup.progress import ProgressDisplay
from kb_reconciler.backup.repair import (
    RepairForecast,
    RepairOutcome,
    forecast_repairs,
    make_pass,
    release_leases,
)
from kb_reconciler.backup.verification import VerifiedBackup
from kb_shared.mongo.database import Database


@dataclass(frozen=True, slots=True)
class RestoredDatabase:
    """Database with all rows of a backup, before the pass of the reconciler."""

    database: Database
    marker: RestoreMarker
    forecast: RepairForecast
    open_jobs: int
    """Number of jobs that indexers continue."""
    api_keys: int
    provider_key_ids: list[str]
    """Ids of the keys of KB_PROVIDER_KEYS that provider keys are sealed with."""
    has_search: bool
    """False if the deployment has no Atlas search, so that search indexes could not be created."""

    async def repair(self) -> RepairOutcome:
        """Make the pass. Afterwards the database is one like any other."""
        outcome = await make_pass(self.database)
        await self.marker.remove()
        return outcome


async def load(database: Database, backup: VerifiedBackup, *, progress: ProgressDisplay) -> RestoredDatabase:
    """Write a verified backup into an empty database, or continue that, and compare what was written.

    Raises:
        BackupRefused: the database is not empty.
    """
    marker = await markers.claim(database, backup.manifest.header, backup.scope)
    if marker.continues:
        progress.say(f"continuing an interrupted restore: {len(marker.finished)} collections are complete")
    loader = BackupLoader(database, backup, marker, progress)
    await loader.load()
    has_search = await loader.create_search_indexes()
    open_jobs = await release_leases(database)
    progress.begin("comparing", rows=0)
    return RestoredDatabase(
        database,
        marker,
        await forecast_repairs(database),
        open_jobs=open_jobs,
        api_keys=await database["api_keys"].count_documents({}),
        provider_key_ids=sorted(await database["llm_providers"].distinct("key_id")),
        has_search=has_search,
    )
