"""Stores properties of entities, nodes and edges as flat documents, with dates as dates."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kb_contracts.documents import DateValue
from kb_contracts.knowledge.properties import PropertyValue
from kb_shared.mongo.database import Row


def to_stored(properties: Mapping[str, PropertyValue]) -> Row:
    return {name: _plain(value) for name, value in properties.items()}


def from_stored(properties: Mapping[str, Any]) -> dict[str, PropertyValue]:
    return {name: DateValue(date=value) if isinstance(value, datetime) else value for name, value in properties.items()}


def to_comparable(properties: Mapping[str, PropertyValue]) -> dict[str, tuple[type, object]]:
    """Return what two maps with the same properties have in common, whether they were stored or not.

    Values of different types differ: `True == 1` in Python.
    """
    return {name: (type(value), value) for name, value in to_stored(properties).items()}


def _plain(value: PropertyValue) -> Any:
    if not isinstance(value, DateValue):
        return value
    moment = value.date.astimezone(UTC)
    # MongoDB stores milliseconds.
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
