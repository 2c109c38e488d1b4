"""As much of MongoDB as `rate_limits` uses, on the loop's clock: its own updates are interpreted, not imitated."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from kb_shared.mongo.database import Database

_START = datetime(2026, 1, 1, tzinfo=UTC)


def evaluate(expression: Any, row: dict[str, Any], now: datetime) -> Any:
    """The value of an aggregation expression."""
    match expression:
        case "$$NOW":
            return now
        case str() if expression.startswith("$"):
            return row.get(expression[1:])
        case dict():
            ((operator, operands),) = expression.items()
            return _OPERATORS[operator](*(evaluate(each, row, now) for each in operands))
    return expression


def _minus(left: Any, right: Any) -> Any:
    difference = left - right
    return difference // timedelta(milliseconds=1) if isinstance(difference, timedelta) else difference


_OPERATORS: dict[str, Callable[..., Any]] = {
    "$add": lambda *terms: sum(terms),
    "$subtract": _minus,
    "$max": max,
    "$ifNull": lambda value, default: default if value is None else value,
    "$cond": lambda condition, then, otherwise: then if condition else otherwise,
    "$lte": lambda left, right: left <= right,
    "$eq": lambda left, right: left == right,
}


class SimulatedMongo:
    """A database for any number of replicas; each command takes `latency_s`, in the middle of which it happens."""

    def __init__(self, *, latency_s: float = 0.0) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.commands = 0
        self.jump_s = 0.0
        """Jump of the server's clock."""
        self._latency_s = latency_s

    def as_database(self) -> Database:
        return cast("Database", self)

    def get_collection(self, _name: str, **_options: Any) -> "SimulatedMongo":
        return self

    @property
    def now(self) -> datetime:
        now_ms = int((asyncio.get_running_loop().time() + self.jump_s) * 1000)
        return _START + timedelta(milliseconds=now_ms)

    async def find_one_and_update(
        self, key: dict[str, Any], stages: list[dict[str, Any]], **_options: Any
    ) -> dict[str, Any]:
        await asyncio.sleep(self._latency_s / 2)
        self.commands += 1
        now = self.now
        row = self.rows.setdefault(key["_id"], dict(key))
        assert row["organization_id"] == key["organization_id"]
        for stage in stages:
            ((name, fields),) = stage.items()
            if name == "$unset":
                del row[fields]
            else:
                row |= {field: evaluate(expression, row, now) for field, expression in fields.items()}
        answer = dict(row)
        await asyncio.sleep(self._latency_s / 2)
        return answer

    async def find_one(self, key: dict[str, Any], projection: dict[str, Any]) -> dict[str, Any] | None:
        await asyncio.sleep(self._latency_s)
        self.commands += 1
        row = self.rows.get(key["_id"])
        if row is None:
            return None
        return {field: evaluate(expression, row, self.now) for field, expression in projection.items()}
