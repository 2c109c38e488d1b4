"""Numbers as people type them into forms."""

from collections.abc import Callable

from kb_console.errors import UnusableForm


class TypedNumbers:
    """Reads the numbers of a form, and notes those that are none."""

    def __init__(self) -> None:
        self._problems: dict[str, str] = {}

    def read(self, name: str, text: str, kind: Callable[[str], float]) -> float | None:
        """Return the number in a field; None if the field is empty or has no number."""
        if not text.strip():
            return None
        try:
            return kind(text)
        except ValueError:
            self._problems[name] = "must be a whole number" if kind is int else "must be a number"
            return None

    def check(self) -> None:
        """Raise UnusableForm if a field has no number."""
        if self._problems:
            raise UnusableForm(self._problems)
