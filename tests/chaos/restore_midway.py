"""Loses a system in the middle of a run: a backup made under load is restored, and the run continues there."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase

from kb_local.stack import Stack
from kb_reconciler.backup.backup import back_up
from kb_reconciler.backup.progress import SilentProgress
from kb_reconciler.backup.restore import load
from kb_reconciler.backup.scope import BackupScope
from kb_reconciler.backup.verification import verify
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from tests.chaos.knowledge_plan import EntryChange, SourceChange
from tests.chaos.plan import Change, Create, Drop, FaultPlan, Misbehave, Retag

BACKUP_BEGINS_AT: Final = 0.3
"""Share of the run after which the backup begins."""
RESTORED_AT: Final = 0.5
"""Share of the run after which the system is lost."""


def split_plan(plan: FaultPlan) -> tuple[FaultPlan, FaultPlan]:
    """Return what happens before and after the restore. Faults that are not over by then are left out."""
    at_s = plan.seconds * RESTORED_AT
    before = replace(
        plan,
        seconds=at_s,
        changes=[change for change in plan.changes if change.at_s < at_s],
        process_faults=[fault for fault in plan.process_faults if fault.until_s < at_s],
        provider_faults=[fault for fault in plan.provider_faults if fault.until_s < at_s],
        runner_kills=[kill for kill in plan.runner_kills if kill.until_s < at_s],
    )
    after = replace(
        plan,
        seconds=plan.seconds - at_s,
        changes=_later(plan.changes, at_s),
        process_faults=_later(plan.process_faults, at_s),
        provider_faults=_later(plan.provider_faults, at_s),
        runner_kills=_later(plan.runner_kills, at_s),
    )
    return before, after


def _later(planned: Sequence[Any], at_s: float) -> list[Any]:
    moved = [replace(each, at_s=each.at_s - at_s) for each in planned if each.at_s >= at_s]
    return [replace(each, until_s=each.until_s - at_s) if hasattr(each, "until_s") else each for each in moved]


def is_made_by_users(change: Change | Misbehave) -> bool:
    """Return whether users make the change. What a backup lacks of it, no upstream sends again."""
    return isinstance(change, Create | Retag | Drop | EntryChange)


def is_about_source(change: Change | Misbehave) -> bool:
    """Return whether a run, which may take longer than until the backup begins, can depend on the change."""
    return isinstance(change, SourceChange)


async def back_up_stack(stack: Stack, folder: Path) -> None:
    """Make a backup of everything, while the services work."""
    async with AsyncMongoClient[dict[str, Any]](stack.mongo_uri, tz_aware=True) as client:
        await back_up(client[stack.database], folder, BackupScope(), progress=SilentProgress())


async def kill_services(stack: Stack) -> None:
    await run_all_or_cancel(service.kill() for service in stack.services.values())


async def move_to_backup(stack: Stack, folder: Path, *, database: str) -> set[str]:
    """Restore the backup into `database`, and start the services, which were killed, there.

    Returns:
        Ids of the charges that only the lost database had.
    """
    async with AsyncMongoClient[dict[str, Any]](stack.mongo_uri, tz_aware=True, w="majority") as client:
        lost, restored = client[stack.database], client[database]
        verified = await verify(folder, BackupScope(), progress=SilentProgress())
        await (await load(restored, verified, progress=SilentProgress())).repair()
        forgotten = await _find_charges(lost) - await _find_charges(restored)
    stack.database = database
    for service in stack.services.values():
        service.env = {**service.env, "KB_MONGO_DATABASE": database}
    await run_all_or_cancel(service.start() for service in stack.services.values())
    return forgotten


async def _find_charges(database: AsyncDatabase[dict[str, Any]]) -> set[str]:
    return {row["_id"] async for row in database.spu_ledger.find({}, {"_id": 1})}
