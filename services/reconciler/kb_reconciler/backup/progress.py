"""Progress of a backup or a restore, as a caller wants to see it."""

from typing import Protocol


class ProgressDisplay(Protocol):
    """Display of how far it is."""

    def begin(self, name: str, *, rows: int) -> None:
        """Show that `name`, with about so many rows, comes next."""

    def advance(self, rows: int) -> None:
        """Show that so many more rows are done."""

    def say(self, sentence: str) -> None:
        """Show something that a person should know."""


class SilentProgress:
    """Shows nothing."""

    def begin(self, name: str, *, rows: int) -> None:
        """Ignore it."""

    def advance(self, rows: int) -> None:
        """Ignore it."""

    def say(self, sentence: str) -> None:
        """Ignore it."""
