"""Compares answers with rows, field by field."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from bson import ObjectId
from pydantic import BaseModel

from tests.waiting import DEADLINE_S

A = TypeVar("A")
S = TypeVar("S")


def assert_shows(answer: BaseModel, row: Mapping[str, Any], *, names: Mapping[str, str] | None = None) -> None:
    """Compare every field of an answer with a row.

    Args:
        row: what is stored, with what follows from it under the names of the answer's fields. An absent field is null.
        names: names in the row of fields that have another one there.
    """
    stored_names = {name: (names or {}).get(name, name) for name in type(answer).model_fields}
    stored = {name: row.get(stored_name) for name, stored_name in stored_names.items()}
    assert plain(answer.model_dump()) == plain(stored)


def assert_holds(row: Mapping[str, Any], **given: Any) -> None:
    """Compare what a caller has given with what is stored under the same names."""
    assert plain({name: row.get(name) for name in given}) == plain(given)


def plain(value: Any) -> Any:
    """Return a value without the differences between BSON and JSON."""
    match value:
        case BaseModel():
            return plain(value.model_dump())
        case Mapping():
            return {name: plain(each) for name, each in value.items()}
        case ObjectId():
            return str(value)
        case str() | bytes():
            return value
        case Sequence():
            return [plain(each) for each in value]
    return value


async def undisturbed(call: Callable[[], Awaitable[A]], read: Callable[[], Awaitable[S]]) -> tuple[A, S]:
    """Return an answer and what was stored before and after it: the services go on working meanwhile."""
    async with asyncio.timeout(DEADLINE_S):
        before = await read()
        while True:
            answer, after = await call(), await read()
            if after == before:
                return answer, after
            before = after
