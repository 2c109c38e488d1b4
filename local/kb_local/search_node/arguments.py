"""Reads the arguments of a client's document, and refuses invalid ones with Atlas's texts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kb_local.search_node.errors import CommandError

ErrorBuilder = Callable[[str], CommandError]


class Arguments:
    """One document of a query or a definition; `close` refuses fields that were not read.

    Args:
        source: what the client sent.
        where: its path, such as `compound.must[0].text`; empty for the root.
        refuse: makes the error from its text.
    """

    def __init__(self, source: object, where: str, *, refuse: ErrorBuilder) -> None:
        self.where = where
        self._refuse = refuse
        if not isinstance(source, dict):
            raise self.refusal("must be a document")
        self.source: Mapping[str, Any] = source
        self._asked: set[str] = set()

    def refusal(self, complaint: str, name: str = "") -> CommandError:
        """Return the error for this document, or for its field `name`."""
        where = self.path(name) if name else self.where
        return self._refuse(f'"{where}" {complaint}' if where else complaint)

    def path(self, name: str) -> str:
        return f"{self.where}.{name}" if self.where else name

    def given(self, name: str) -> Any:
        """Return a value as it was sent; None for null and when it is missing."""
        self._asked.add(name)
        return self.source.get(name)

    def has(self, name: str) -> bool:
        return self.source.get(name) is not None

    def required(self, name: str) -> Any:
        value = self.given(name)
        if value is None:
            raise self.refusal("is required", name)
        return value

    def text(self, name: str) -> str | None:
        """Return a string that is not empty."""
        value = self.given(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self.refusal("must be a string", name)
        if not value:
            raise self.refusal("cannot be empty", name)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a required string or list of strings, none of them empty."""
        found = []
        for where, value in self.one_or_many(name):
            if not isinstance(value, str):
                raise self._refuse(f'"{where}" must be a string')
            if not value:
                raise self._refuse(f'"{where}" cannot be empty')
            found.append(value)
        return tuple(found)

    def one_or_many(self, name: str) -> Iterator[tuple[str, Any]]:
        """Yield the elements of a required list, or a single value, each with its path."""
        value = self.required(name)
        if not isinstance(value, list):
            yield self.path(name), value
            return
        if not value:
            raise self.refusal("cannot be empty", name)
        for number, element in enumerate(value):
            yield f"{self.path(name)}[{number}]", element

    def boolean(self, name: str, *, default: bool) -> bool:
        value = self.given(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.refusal("must be a boolean", name)
        return value

    def integer(self, name: str, *, default: int, bounds: tuple[int, int | None] = (0, None)) -> int:
        value = self.given(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not float(value).is_integer():
            raise self.refusal("must be an integer", name)
        low, high = bounds
        if high is not None and not low <= value <= high:
            raise self.refusal(f"must be within bounds [{low}..{high}]", name)
        if value < low:
            raise self.refusal("must be positive" if low else "cannot be negative", name)
        return int(value)

    def number(self, name: str) -> float | None:
        value = self.given(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refusal("must be a number", name)
        return float(value)

    def choice(self, name: str, options: Sequence[str], *, default: str) -> str:
        value = self.given(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.refusal("must be a string", name)
        if value not in options:
            raise self.refusal(f"must be one of [{', '.join(sorted(options))}]", name)
        return value

    def child(self, name: str) -> "Arguments":
        return Arguments(self.given(name), self.path(name), refuse=self._refuse)

    def element(self, where: str, source: object) -> "Arguments":
        return Arguments(source, where, refuse=self._refuse)

    def close(self) -> None:
        """Refuse fields that were never asked for."""
        unknown = [name for name in self.source if name not in self._asked]
        if len(unknown) == 1:
            raise self.refusal(f'unrecognized field "{unknown[0]}"')
        if unknown:
            listed = ", ".join(f'"{name}"' for name in unknown)
            raise self.refusal(f"unrecognized fields [{listed}]")
