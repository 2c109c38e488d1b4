"""Drops the index on the states of jobs that a longer one has replaced. Services build that one at their start."""

from typing import Final

from kb_reconciler.migrations.migration import Migration
from kb_reconciler.migrations.replaced_indexes import drop_replaced
from kb_shared.mongo import index_jobs
from kb_shared.mongo.database import Database

_REPLACED_INDEX: Final = "state_1"


async def _migrate_batch(database: Database, _: str | None) -> str | None:
    await drop_replaced(database[index_jobs.NAME], _REPLACED_INDEX)
    return None


INDEX_OF_JOBS: Final = Migration(
    version=3,
    name="index_of_jobs",
    description=(
        "Drops the index `state_1` of `index_jobs`. A longer one, by which the age of the oldest event that is not "
        "indexed is found, answers its queries, too."
    ),
    migrate_batch=_migrate_batch,
)
