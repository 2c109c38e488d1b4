"""The way to MongoDB: one client a process, majority writes, transactions that give up in time."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

from pymongo import ReadPreference, UpdateOne, WriteConcern
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    DuplicateKeyError,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
    WaitQueueTimeoutError,
)
from pymongo.read_concern import ReadConcern

from kb_shared.errors import TransientError, WriteConflicts
from kb_shared.mongo.uri import create_client
from kb_shared.settings import CommonSettings

Row: TypeAlias = dict[str, Any]
Database: TypeAlias = AsyncDatabase[Row]
Collection: TypeAlias = AsyncCollection[Row]
Session: TypeAlias = AsyncClientSession
T = TypeVar("T")

MAX_ATTEMPTS = 10
DUPLICATE_KEY = 11000
_COMMIT_ATTEMPTS = 30


def in_one_batch(count: int) -> int:
    """The size of a batch that holds so many rows and is seen to be the last: a full one is asked for more."""
    return count + 1


def connect(settings: CommonSettings) -> Database:
    """Open the deployment of `settings`; nothing is sent yet.

    Raises:
        Misconfigured: the URI can't be used.
    """
    client = create_client(
        settings.mongo_uri,
        tz_aware=True,
        w="majority",
        serverSelectionTimeoutMS=10_000,
        appname="knowledge-bases",
    )
    return client[settings.mongo_database]


_PASSING_CODES = frozenset({6, 7, 89, 91, 112, 189, 251, 262, 9001, 10107, 11600, 11602, 13435, 13436})
"""Of server errors that say: not now (elections, shutdowns, lost connections, write conflicts)."""


@contextmanager
def mongo_errors() -> Iterator[None]:
    """Raise MongoDB's passing failures as `TransientError`; what a bug causes stays what it is."""
    try:
        yield
    except (ConnectionFailure, WaitQueueTimeoutError, ExecutionTimeout) as error:
        raise TransientError(f"MongoDB is away ({type(error).__name__})") from error
    except OperationFailure as error:
        passing = error.code in _PASSING_CODES or any(
            error.has_error_label(label) for label in ("TransientTransactionError", "RetryableWriteError")
        )
        if passing:
            raise TransientError(f"MongoDB is not able now (code {error.code})") from error
        raise


async def upsert_all(collection: Collection, upserts: Sequence[UpdateOne]) -> None:
    """Apply upserts, in no order.

    Two that insert the same row at once may collide: the server repeats an upsert itself only when its filter is the
    unique key and nothing else, and ours name the organization, too. The second time round the row is there.
    """
    left = list(upserts)
    for _ in range(MAX_ATTEMPTS):
        try:
            await collection.bulk_write(left, ordered=False)
        except BulkWriteError as error:
            failures = error.details["writeErrors"]
            if any(failure["code"] != DUPLICATE_KEY for failure in failures):
                raise
            left = [left[failure["index"]] for failure in failures]
        else:
            return
    raise TransientError(f"{MAX_ATTEMPTS} writers were faster in a row")


class _Conflict(Exception):
    """Another transaction wrote the same row first."""


async def in_transaction(database: Database, work: Callable[[Session], Awaitable[T]]) -> T:
    """Run `work` in one transaction and return its value; an exception of `work` aborts it.

    Reads are majority snapshots; the commit is acknowledged by the majority. `work` is repeated after a write
    conflict, so it must have no effect but its writes.

    Raises:
        WriteConflicts: after 10 conflicts.
        TransientError: if the outcome of the commit stays unknown.
    """
    async with database.client.start_session() as session:
        for attempt in range(MAX_ATTEMPTS):
            try:
                return await _attempt(session, work)
            except _Conflict:
                await asyncio.sleep(random.uniform(0, min(0.005 * 2**attempt, 0.5)))  # noqa: S311  # jitter, no secret
    raise WriteConflicts(f"{MAX_ATTEMPTS} write conflicts in a row")


async def _attempt(session: Session, work: Callable[[Session], Awaitable[T]]) -> T:
    await session.start_transaction(
        read_concern=ReadConcern("snapshot"),
        write_concern=WriteConcern("majority"),
        read_preference=ReadPreference.PRIMARY,
    )
    try:
        value = await work(session)
    except BaseException as error:
        await _abort(session)
        if _is_conflict(error):
            raise _Conflict from error
        raise
    await _commit(session)
    return value


async def _abort(session: Session) -> None:
    try:
        await session.abort_transaction()
    except PyMongoError:
        return  # the server aborts what it no longer hears of


async def _commit(session: Session) -> None:
    for _ in range(_COMMIT_ATTEMPTS):
        try:
            await session.commit_transaction()
        except PyMongoError as error:
            if error.has_error_label("UnknownTransactionCommitResult"):
                await asyncio.sleep(0.1)
                continue
            if _is_conflict(error):
                raise _Conflict from error
            raise
        else:
            return
    raise TransientError("the outcome of a commit stayed unknown")


def _is_conflict(error: BaseException) -> bool:
    # An upsert that meets a row committed after its snapshot reports a duplicate key: the same conflict.
    if isinstance(error, DuplicateKeyError):
        return True
    if isinstance(error, BulkWriteError) and any(
        failure["code"] == DUPLICATE_KEY for failure in error.details["writeErrors"]
    ):
        return True
    return isinstance(error, (OperationFailure, ConnectionFailure)) and error.has_error_label(
        "TransientTransactionError"
    )
