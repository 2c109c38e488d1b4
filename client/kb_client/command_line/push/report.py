"""Outcome of a push, file by file."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypeAlias

from kb_client.files.file_problem import FileProblem

OutcomeKind: TypeAlias = Literal["searchable", "sent", "unchanged", "retagged", "deleted", "unreadable", "failed"]
"""`unreadable`: the file itself can't be read; `failed`: anything else, which may go right the next time."""

_PROBLEMS: Final = ("unreadable", "failed")


@dataclass(frozen=True, slots=True)
class FileOutcome:
    file: str
    """Path for people: relative to the pushed folder."""
    document_id: str | None
    outcome: OutcomeKind
    reason: str | None = None
    """Why it failed, or is not searchable yet, and what to do."""
    passages: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class PushReport:
    """Outcomes so far."""

    outcomes: list[FileOutcome] = field(default_factory=list)
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Numbers of files that were left out, by reason."""
    still_indexing: int = 0
    """Number of files that were sent before, and are not searchable yet."""
    interrupted: bool = False

    def add_problem(self, problem: FileProblem, *, shown: str | None = None, document_id: str | None = None) -> None:
        """Add a file that can't be read, or a folder or an argument, which has no id of a document."""
        kind: OutcomeKind = "failed" if document_id is None else "unreadable"
        reason = f"{problem.reason}; {problem.remedy}"
        self.outcomes.append(FileOutcome(shown or str(problem.path), document_id, kind, reason))

    def count(self, kind: OutcomeKind) -> int:
        return sum(each.outcome == kind for each in self.outcomes)

    @property
    def problems(self) -> list[FileOutcome]:
        """Files that did not arrive."""
        return [each for each in self.outcomes if each.outcome in _PROBLEMS]

    def exit_status(self, *, strict: bool) -> int:
        """Return the status of the command. A file that can't be read counts with `strict`, or if there is no other."""
        nothing_arrived = len(self.problems) == len(self.outcomes)
        is_bad = self.count("failed") > 0 or (self.count("unreadable") > 0 and (strict or nothing_arrived))
        return int(is_bad)

    def to_json(self, **more: Any) -> dict[str, Any]:
        counts = {kind: self.count(kind) for kind in OutcomeKind.__args__}  # type: ignore[attr-defined]  # a Literal
        files = [asdict(each) for each in self.outcomes if each.outcome != "unchanged"]
        return {
            **more,
            "counts": counts,
            "skipped": dict(self.skipped),
            "still_indexing": self.still_indexing,
            "interrupted": self.interrupted,
            "files": files,
        }


def summarize(report: PushReport, *, duration_s: float) -> list[str]:
    """Return the lines that end a push."""
    words = {
        "searchable": "searchable",
        "sent": "sent",
        "retagged": "got tags",
        "deleted": "deleted",
        "unchanged": "unchanged",
        "unreadable": "can't be read",
        "failed": "failed",
    }
    counted: list[str] = [
        f"{count:,} {word}"
        for kind, word in words.items()
        if (count := report.count(kind))  # type: ignore[arg-type]  # the keys are kinds
    ]
    nothing = "Nothing was sent" if report.interrupted else "Nothing to do"
    lines = [f"{', '.join(counted) or nothing} in {duration_s:.1f} s"]
    if report.still_indexing:
        lines.append(
            f"still being indexed since an earlier push: {report.still_indexing:,} (`kb docs list` shows them)"
        )
    if report.skipped:
        reasons = ", ".join(f"{count:,} x {reason}" for reason, count in report.skipped.items())
        lines.append(f"left out: {reasons}")
    return lines
