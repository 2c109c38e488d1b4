"""Defines a migration."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kb_shared.mongo.database import Database


@dataclass(frozen=True, slots=True)
class Migration:
    """Change of stored data, made in batches by one reconciler while all services work, also those one version older.

    A reconciler may die after each command, and the batch is then migrated again by another one. So a batch can be
    repeated at any time.
    """

    version: int
    """Schema version of the data once the migration is finished."""
    name: str
    description: str
    """One sentence for docs/reference/migrations.md: what changes, and what this costs."""
    migrate_batch: Callable[[Database, str | None], Awaitable[str | None]]
    """Function that migrates the batch after a marker (None: the first batch), and returns the marker of its end; None
    if nothing was left."""
