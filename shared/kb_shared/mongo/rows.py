"""Reads rows as dataclasses, also rows of an older or newer version of this code.

During a rolling update, replicas of both versions read the same rows. So a field that this version does not know is
ignored, and an optional field that is missing gets its default. Only a required field that is missing is an error.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields
from typing import Any, Final, Generic, TypeVar

from kb_shared.mongo.database import Row

T = TypeVar("T")

Convert = Callable[[Any], Any]

_REQUIRED: Final = object()


def match_version(versions: Collection[int] | None) -> Row:
    """Return the condition that a row has one of these versions, any for None. A row without a version has 0."""
    if versions is None:
        return {}
    return {"version": {"$in": [*versions, *([None] if 0 in versions else [])]}}


class UnreadableRow(Exception):
    """A row lacks a required field. The message names the field and the class, and quotes no value."""


class RowMapper(Generic[T]):
    """Maps rows of one collection, or embedded documents of one kind, to a dataclass."""

    def __init__(
        self,
        cls: type[T],
        *,
        names: Mapping[str, str] | None = None,
        convert: Mapping[str, Convert] | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        """Prepare the mapping of `cls`.

        Args:
            cls: a dataclass. Its fields with a default are optional in rows.
            names: stored names by field, where they differ, such as `{"kb_id": "_id"}`.
            convert: by field, what makes a field's value of a stored one that is not null.
            defaults: values by field, for fields that the class requires and rows of older versions lack.
        """
        names, convert, defaults = names or {}, convert or {}, defaults or {}
        self.cls = cls
        self._fields = tuple(
            (
                each.name,
                names.get(each.name, each.name),
                convert.get(each.name),
                each.default is MISSING and each.default_factory is MISSING,
                defaults.get(each.name, _REQUIRED),
            )
            for each in fields(cls)  # type: ignore[arg-type]  # a type variable can't be bound to dataclasses
        )

    @property
    def optional(self) -> Mapping[str, str]:
        """Return the stored names of the fields that rows may lack, by field."""
        return {
            field: name
            for field, name, _, required, default in self._fields
            if not required or default is not _REQUIRED
        }

    def stored_name(self, field: str) -> str:
        return next(name for each, name, *_ in self._fields if each == field)

    def read(self, row: Row) -> T:
        """Convert a row.

        Raises:
            UnreadableRow: a required field is missing.
        """
        values: dict[str, Any] = {}
        for field, name, convert, required, default in self._fields:
            value = row.get(name, MISSING)
            if value is MISSING:
                if default is not _REQUIRED:
                    values[field] = default
                elif required:
                    raise UnreadableRow(f"a row of {self.cls.__name__} has no {name!r}")
            elif convert is None or value is None:
                values[field] = value
            else:
                values[field] = convert(value)
        return self.cls(**values)
