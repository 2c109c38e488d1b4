"""All migrations, oldest first. `docs/reference/migrations.md` lists the same."""

from typing import Final

from kb_reconciler.migrations.chunk_indexes import INDEX_OF_CHUNKS
from kb_reconciler.migrations.job_indexes import INDEX_OF_JOBS
from kb_reconciler.migrations.migration import Migration

MIGRATIONS: Final[tuple[Migration, ...]] = (INDEX_OF_CHUNKS, INDEX_OF_JOBS)
