"""Commits the change that a request makes, together with the rows that record it.

What records the changes of a request (`recording`) writes in the same transaction: after a crash, there is either the
change with its records, or neither. Outside of a request, a change is recorded nowhere.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel

from kb_shared.errors import RequestError
from kb_shared.mongo.database import Database, MongoSession, in_transaction

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InsteadOfAnswer:
    """Error for a repeated request whose first answer must not be stored, because it contains a secret."""

    error: RequestError


ChangeAnswer: TypeAlias = BaseModel | RequestError | InsteadOfAnswer
"""Answer to a request that repeats one with the same `Idempotency-Key`. The one that the first request got at its end
replaces it, unless it is an `InsteadOfAnswer`."""


class ChangeRecorder(Protocol):
    """Writes a row about a change in the transaction of the change."""

    async def record(self, session: MongoSession, answer: ChangeAnswer | None) -> None: ...


_recorders: Final[ContextVar[tuple[ChangeRecorder, ...]]] = ContextVar("recorders", default=())


@contextmanager
def recording(recorder: ChangeRecorder) -> Iterator[None]:
    """Let `recorder` record the changes that are committed in the block."""
    token = _recorders.set((*_recorders.get(), recorder))
    try:
        yield
    finally:
        _recorders.reset(token)


async def commit_change(
    database: Database,
    work: Callable[[MongoSession], Awaitable[T]],
    *,
    answer: Callable[[T], ChangeAnswer] | None = None,
) -> T:
    """Run `work` in one transaction, which also records the change. Raises as `in_transaction`.

    Args:
        work: the commands of the transaction.
        answer: makes the answer to a repeated request of the value of `work`. None: the change has no further effect
            when it is repeated.
    """

    async def change(session: MongoSession) -> T:
        value = await work(session)
        await record_change(session, None if answer is None else answer(value))
        return value

    return await in_transaction(database, change)


async def record_change(session: MongoSession, answer: ChangeAnswer | None) -> None:
    """Write the records of a change in its transaction."""
    for recorder in _recorders.get():
        await recorder.record(session, answer)


async def record_beforehand(database: Database, answer: ChangeAnswer) -> None:
    """Record a change that is more than one transaction, before it begins: it is begun at most once."""
    if _recorders.get():
        await in_transaction(database, lambda session: record_change(session, answer))
