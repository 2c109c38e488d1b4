"""Reason why a file can't be sent."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FileProblem:
    """Reason and remedy, both in words for the user and without anything that is in the file."""

    path: Path
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}; {self.remedy}"
