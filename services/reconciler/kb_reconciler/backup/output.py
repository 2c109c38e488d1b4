"""Shows the progress and the outcome of backups and restores."""

import sys
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table

from kb_reconciler.backup.manifest import Manifest
from kb_reconciler.backup.repair import RepairForecast, RepairOutcome
from kb_reconciler.backup.restore import RestoredDatabase

_KEYS: Final = "KB_PROVIDER_KEYS"


class ProgressBar:
    """Progress on the standard error: the part that is read or written, and its rows."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._console = Console(file=sys.stderr)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed} of about {task.total} rows"),
            console=self._console,
            disable=not shown,
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, name: str, *, rows: int) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(name, total=rows)

    def advance(self, rows: int) -> None:
        if self._task is not None:
            self._progress.advance(self._task, rows)

    def say(self, sentence: str) -> None:
        if self._shown:
            self._console.print(sentence, highlight=False, soft_wrap=True)


def describe_backup(manifest: Manifest, folder: str) -> dict[str, Any]:
    """Return the outcome of a backup for a JSON object."""
    return {
        "folder": folder,
        "scope": str(manifest.header.scope),
        "knowledge_bases": len(manifest.knowledge_bases),
        "rows": manifest.rows,
        "bytes": manifest.size,
        "one_cluster_time": manifest.has_one_time,
        "cluster_times": {
            name: [time.model_dump() for time in times] for name, times in manifest.cluster_times.items()
        },
        "left_out": dict(manifest.left_out),
        "provider_key_ids": list(manifest.provider_key_ids),
    }


def print_backup(manifest: Manifest, folder: str) -> None:
    console = Console()
    times = sorted({time.seconds for each in manifest.cluster_times.values() for time in each})
    size = f"{len(manifest.knowledge_bases)} knowledge bases, {manifest.rows} rows, {manifest.size / 1e6:.1f} MB"
    sentences = [f"{folder} has a backup of {manifest.header.scope}: {size}."]
    if manifest.has_one_time:
        sentences.append("Everything is of one cluster time.")
    else:
        sentences.append(
            f"It is of several cluster times within {times[-1] - times[0]} s, because the server's snapshot history"
            " was too short for one. Each knowledge base is of one time; manifest.json lists them. A restore repairs"
            " what differs."
        )
    if manifest.provider_key_ids:
        sentences.append(_say_keys(manifest.provider_key_ids))
    console.print(" ".join(sentences), highlight=False, soft_wrap=True)


def _say_keys(key_ids: Any) -> str:
    return (
        f"Keys of providers are sealed with {', '.join(key_ids)}: keep {_KEYS} somewhere else than the backup, because"
        " they can't be opened without it."
    )


def describe_restore(
    restored: RestoredDatabase, forecast: RepairForecast, outcome: RepairOutcome | None
) -> dict[str, Any]:
    """Return the outcome of a restore for a JSON object."""
    return {
        "database": restored.database.name,
        "found": dict(forecast.found),
        "spus_at_most": forecast.spus_at_most,
        "not_active": forecast.not_active,
        "open_jobs": restored.open_jobs,
        "api_keys": restored.api_keys,
        "provider_key_ids": restored.provider_key_ids,
        "search_indexes_created": restored.has_search,
        "repaired": dict(outcome.report.total.repaired) if outcome else None,
        "stopped": dict(outcome.report.total.stopped) if outcome else None,
        "stopped_plan_ids": list(outcome.plan_ids) if outcome else [],
        "unfinished": sorted(outcome.report.unfinished) if outcome else [],
    }


def print_notes(restored: RestoredDatabase, *, key_ids_here: frozenset[str], console: Console) -> None:
    """Print what an operator has to know before the services use the database."""
    notes = []
    if restored.api_keys:
        notes.append(
            f"{restored.api_keys} API keys are restored as the hashes that they are: the services need the same"
            " KB_API_KEY_PEPPER."
        )
    if restored.provider_key_ids:
        notes.append(
            f"Keys of providers are sealed with {', '.join(restored.provider_key_ids)}: the services need the same"
            f" {_KEYS}."
        )
        if missing := sorted(set(restored.provider_key_ids) - key_ids_here):
            notes.append(f"{_KEYS} of this shell does not have {', '.join(missing)}.")
    if not restored.has_search:
        notes.append("MongoDB has no Atlas search here: the reconciler creates the search indexes once it has.")
    if restored.open_jobs:
        notes.append(f"{restored.open_jobs} jobs on documents were open, and indexers continue them.")
    for note in notes:
        console.print(note, highlight=False, soft_wrap=True)


def print_forecast(forecast: RepairForecast, *, console: Console) -> None:
    if not forecast.found:
        console.print("No drift was found: nothing has to be embedded again.", highlight=False)
        return
    table = Table("drift", "found")
    for kind, number in sorted(forecast.found.items()):
        table.add_row(kind, str(number))
    console.print(table)
    console.print(
        f"The repair costs at most {forecast.spus_at_most} SPUs. Vectors that are in the restored cache cost nothing.",
        highlight=False,
        soft_wrap=True,
    )


def print_outcome(restored: RestoredDatabase, outcome: RepairOutcome) -> None:
    report, console = outcome.report, Console()
    sentences = [f"Database {restored.database.name} is restored."]
    if report.total.found:
        sentences.append(
            f"{report.total.repaired.total()} repairs were made, or are queued for the indexers of this database."
        )
    if report.unfinished:
        sentences.append(f"The reconciler continues with {len(report.unfinished)} knowledge bases.")
    if outcome.plan_ids:
        sentences.append(
            f"The brake has stopped {report.total.stopped.total()} removals: plans {', '.join(outcome.plan_ids)} list"
            " them. To apply one: kb reconcile --apply PLAN_ID"
        )
    console.print(" ".join(sentences), highlight=False, soft_wrap=True)
