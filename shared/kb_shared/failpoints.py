"""Named places where a test makes this process die or wait.

`KB_FAILPOINT=swap.before_commit` kills the process with SIGKILL when it reaches this place for the first time,
`swap.before_commit:3` at the third time. Within a process, `during(name, action)` awaits an action there. Without
either, `reach` costs a dictionary lookup.
"""

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

OF_INDEXER = (
    "fan_out.before_projection",
    "fan_out.after_text",
    "fan_out.after_projection",
    "fan_out.after_jobs",
    "fan_out.after_publish",
    "dead_letter.after_filing",
    "dead_letter.after_publishing",
    "dead_letter.after_announcing",
    "consumer.after_handle",
    "consumer.before_commit",
    "consumer.after_commit",
    "sync.after_claim",
    "sync.after_chunking",
    "embed.after_answer",
    "embed.before_store_commit",
    "embed.after_store",
    "swap.after_row",
    "swap.after_fence",
    "swap.after_slot",
    "swap.after_chunks",
    "swap.after_job",
    "swap.before_commit",
    "swap.after_commit",
    "removal.after_row",
    "removal.after_chunks",
    "removal.before_commit",
    "removal.after_commit",
    "outbox.after_send",
    "backfill.after_jobs",
    "backfill.after_publish",
    "sweeper.after_lease",
)
OF_MIGRATIONS = (
    "migration.after_begin",
    "migration.after_batch",
    "migration.after_marker",
    "migration.before_finish",
)
OF_RECONCILER = ("plan.before_finish", *OF_MIGRATIONS)
OF_BACKUPS = ("backup.after_chunks", "backup.after_part", "backup.before_manifest", "restore.after_collection")
OF_REQUESTS = ("idempotency.after_claim", "idempotency.after_effect", "batch.after_entry")
OF_ORGANIZATION_DELETIONS = (
    "organization_deletion.after_keys",
    "organization_deletion.after_knowledge_bases",
    "organization_deletion.after_rows",
    "organization_deletion.before_finish",
)
OF_EVENTS = ("events.before_positions", "events.before_commit", "events.after_commit")
OF_WEBHOOKS = ("webhook.after_send",)
OF_SOURCES = (
    "source.after_claim",
    "source.after_take",
    "source.after_fetch",
    "source.after_links",
    "source.after_finish",
    "source.after_entry",
    "source.after_settling",
    "source.after_removal",
    "source.before_end",
    "source.after_end",
)
OF_DEAD_LETTERS = ("dead_letters.after_redrive",)
NAMES = (
    *OF_EVENTS,
    *OF_WEBHOOKS,
    *OF_DEAD_LETTERS,
    *OF_INDEXER,
    *OF_REQUESTS,
    *OF_ORGANIZATION_DELETIONS,
    *OF_RECONCILER,
    *OF_BACKUPS,
    *OF_SOURCES,
)

_actions: dict[str, Callable[[], Awaitable[None]]] = {}
_countdown: dict[str, int] = {}


async def reach(name: str) -> None:
    """Kill the process or await the action that a test has set for `name`."""
    if name in _countdown:
        _countdown[name] -= 1
        if _countdown[name] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    if name in _actions:
        await _actions[name]()


@asynccontextmanager
async def during(name: str, action: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Await `action` each time this process reaches `name`."""
    if name not in NAMES:
        raise ValueError(f"no failpoint is called {name!r}")
    _actions[name] = action
    try:
        yield
    finally:
        del _actions[name]


def arm() -> None:
    """Read `KB_FAILPOINT`. Called once by each service's `main`, so that a forked process reads its own."""
    _countdown.clear()
    name, _, nth = os.environ.get("KB_FAILPOINT", "").partition(":")
    if not name:
        return
    if name not in NAMES:
        raise ValueError(f"KB_FAILPOINT names {name!r}; known are {', '.join(NAMES)}")
    _countdown[name] = int(nth or 1)
