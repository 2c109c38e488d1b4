"""Stores properties of entities, nodes and edges as flat documents, with dates as dates."""

from collections.abc import Mapping
from datetime import UTC
from typing import Any

from kb_contracts.knowledge.properties import PropertyValue
from kb_contracts.metadata import DateValue
from kb_shared.mongo.database import Row


def to_stored(properties: Mapping[str, PropertyValue]) -> Row:
    return {name: _plain(value) for name, value in properties.items()}


def to_comparable(stored: Mapping[str, Any]) -> dict[str, tuple[type, object]]:
    """Return what two stored maps have in common if they are equal. Types count: in Python, `True == 1`."""
    return {name: (type(value), value) for name, value in stored.items()}


def _plain(value: PropertyValue) -> Any:
    if not isinstance(value, DateValue):
        return value
    moment = value.date.astimezone(UTC)
    # MongoDB stores milliseconds.
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
