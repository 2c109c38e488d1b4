"""Reads numbers that were typed into a form."""

from collections.abc import Callable

from kb_console.errors import UnusableForm


class FormNumbers:
    """Collects what is no number, so that a form marks all of its fields at once."""

    def __init__(self) -> None:
        self._problems: dict[str, str] = {}

    def read(self, name: str, text: str, kind: Callable[[str], float]) -> float | None:
        """Return the number in a text, or None if it is blank."""
        if not text.strip():
            return None
        try:
            return kind(text)
        except ValueError:
            self._problems[name] = "Input should be a whole number" if kind is int else "Input should be a number"
            return None

    def check(self) -> None:
        """Raise UnusableForm unless all were numbers."""
        if self._problems:
            raise UnusableForm(self._problems)
