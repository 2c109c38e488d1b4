"""Commits the change that a request makes, together with the rows that record it.

What records the changes of a request (`recording`) writes in the same transaction: after a crash, there is either the
change with its records, or neither. Outside of a request, a change is recorded nowhere.

A batch makes one change for each entry. What an entry answers is recorded as the outcome of this entry, so that a
request that takes the batch over does not carry it out again.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
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
_position: Final[ContextVar[int | None]] = ContextVar("position", default=None)
_outcomes: Final[ContextVar[Mapping[int, bytes]]] = ContextVar("outcomes", default=MappingProxyType({}))


@contextmanager
def recording(recorder: ChangeRecorder, *, outcomes: Mapping[int, bytes] | None = None) -> Iterator[None]:
    """Let `recorder` record the changes that are committed in the block.

    Args:
        recorder: is called in the transaction of each change.
        outcomes: those of entries that an earlier request has carried out, as JSON by their positions in the batch.
    """
    token = _recorders.set((*_recorders.get(), recorder))
    outcomes_token = _outcomes.set(_outcomes.get() if outcomes is None else outcomes)
    try:
        yield
    finally:
        _outcomes.reset(outcomes_token)
        _recorders.reset(token)


@contextmanager
def batch_entry(position: int) -> Iterator[None]:
    """Let the changes in the block be those of one entry of a batch."""
    token = _position.set(position)
    try:
        yield
    finally:
        _position.reset(token)


def current_position() -> int | None:
    """Return the position of the entry that is being carried out; None outside of a batch."""
    return _position.get()


def find_outcome(position: int) -> bytes | None:
    """Return the outcome of an entry, as JSON, if an earlier request with the same `Idempotency-Key` carried it out."""
    return _outcomes.get().get(position)


async def commit_change(
    database: Database,
    work: Callable[[MongoSession], Awaitable[T]],
    *,
    answer: Callable[[T], ChangeAnswer] | None = None,
) -> T:
    """Run `work` in one transaction, which also records the change. Raises as `in_transaction`.

    Args:
        work: the commands of the transaction.
        answer: makes the answer to a repeated request of the value of `work`; in a batch, the outcome of the entry.
            None: the change has no further effect when it is repeated.
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
