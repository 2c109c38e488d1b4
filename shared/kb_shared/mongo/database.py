"""Access to MongoDB: one client per process, majority writes, transactions with a time limit."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, TypeAlias, TypeVar

import pymongo
from pymongo import ReadPreference, UpdateOne, WriteConcern
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    DuplicateKeyError,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
    WaitQueueTimeoutError,
    WriteConcernError,
)
from pymongo.read_concern import ReadConcern

from kb_shared.errors import OutcomeUnknown, TimedOut, TransactionExpired, TransientError, WriteConflicts
from kb_shared.mongo.cancellation import keep_cancellations
from kb_shared.mongo.last_answer import LastAnswer
from kb_shared.mongo.majority import include_in_later_reads
from kb_shared.mongo.uri import create_client
from kb_shared.settings import CommonSettings

keep_cancellations()

Row: TypeAlias = dict[str, Any]
Database: TypeAlias = AsyncDatabase[Row]
Collection: TypeAlias = AsyncCollection[Row]
MongoSession: TypeAlias = AsyncClientSession
T = TypeVar("T")

MAX_ATTEMPTS = 10
DUPLICATE_KEY = 11000
AUTHENTICATION_FAILED = 18

COMMAND_WITHIN_S: Final = 10.0
"""Time limit of a command with all its retries and the wait for the majority. HTTP clients get a 503 within 15 s."""
LONG_COMMAND_WITHIN_S: Final = 3_600.0
"""Time limit of the commands in `long_commands`."""
TRANSACTION_WITHIN_S: Final = 10.0
"""Time limit of a transaction, from its first attempt to its commit."""
TRANSACTION_LIFETIME_S: Final = 60.0
"""Age at which MongoDB ends a transaction by default."""
_ABORT_WITHIN_S: Final = 2.0
_BEFORE_COMMITTING_AGAIN_S: Final = 0.1


def in_one_batch(count: int) -> int:
    """Return the batch size for `count` rows in one request: after a full batch, the driver requests another."""
    return count + 1


def connect(settings: CommonSettings) -> Database:
    """Open the deployment of `settings`; nothing is sent yet.

    Raises:
        Misconfigured: the URI can't be used.
    """
    last_answer = LastAnswer()
    client = create_client(
        settings.mongo_uri,
        tz_aware=True,
        w="majority",
        # Of each command and each batch of a cursor. Replaces `wtimeoutMS`, also one in the URI.
        timeoutMS=int(COMMAND_WITHIN_S * 1000),
        serverSelectionTimeoutMS=int(COMMAND_WITHIN_S * 1000),
        appname="knowledge-bases",
        event_listeners=[last_answer],
    )
    last_answer.export()
    return client[settings.mongo_database]


async def transaction_lifetime_s(database: Database) -> float:
    """Return the age at which MongoDB ends a transaction; the default if this user may not ask for it."""
    try:
        answer = await database.client.admin.command("getParameter", 1, transactionLifetimeLimitSeconds=1)
    except PyMongoError:
        return TRANSACTION_LIFETIME_S
    return float(answer["transactionLifetimeLimitSeconds"])


def long_commands() -> AbstractContextManager[None]:
    """Allow the commands in the block enough time to build an index, or to write every row, of a large collection."""
    return pymongo.timeout(LONG_COMMAND_WITHIN_S)


_ENDED_TRANSACTION: Final = frozenset({251, 290})
"""Error codes: the transaction does not exist any more, or was ended because of its age."""
_PASSING_CODES = frozenset(
    {6, 7, 50, 64, 79, 89, 91, 100, 112, 189, 202, 246, 251, 262, 290}
    | {9001, 10107, 11600, 11601, 11602, 13388, 13435, 13436}
    # While a password is being changed, events must wait and not become dead letters.
    | {AUTHENTICATION_FAILED}
)
"""Codes of transient server errors (elections, shutdowns, lost connections, write conflicts, time limits)."""


@contextmanager
def mongo_errors() -> Iterator[None]:
    """Raise transient errors of MongoDB as `TransientError`, a timeout as `TimedOut`; other errors unchanged."""
    try:
        yield
    except PyMongoError as error:
        if not is_passing(error):
            raise
        code = error.code if isinstance(error, OperationFailure) else None
        if code == AUTHENTICATION_FAILED:
            raise TransientError(
                "MongoDB refuses the user of KB_MONGO_URI (code 18): check its name, its password or certificate, and "
                "authSource"
            ) from error
        if error.timeout:
            raise TimedOut(f"MongoDB did not answer in time ({type(error).__name__}, code {code})") from error
        raise TransientError(f"MongoDB is temporarily unavailable ({type(error).__name__}, code {code})") from error


def is_passing(error: PyMongoError) -> bool:
    """Return whether a retry may help. A write concern error always counts: the write may exist or be lost."""
    match error:
        case ConnectionFailure() | WaitQueueTimeoutError() | ExecutionTimeout() | WriteConcernError():
            return True
        case BulkWriteError():
            failures = error.details.get("writeErrors", [])
            if error.details.get("writeConcernErrors") or any(_code(each) in _PASSING_CODES for each in failures):
                return True
        case OperationFailure() if error.code in _PASSING_CODES:
            return True
        # A connection that was opened while its member was neither primary nor secondary, as after a restart.
        case ConfigurationError() if "Sessions are not supported" in str(error):
            return True
    return error.timeout or any(
        error.has_error_label(label) for label in ("TransientTransactionError", "RetryableWriteError")
    )


def _code(failure: Row) -> int:
    return int(failure.get("code", 0))


def collisions(error: BulkWriteError) -> list[Row]:
    """Return the duplicate key errors of a bulk write; raise `error` if it contains any other error.

    After a write concern error any write may be lost, also the rows that the duplicates collided with.
    """
    failures: list[Row] = error.details.get("writeErrors", [])
    if error.details.get("writeConcernErrors") or any(_code(failure) != DUPLICATE_KEY for failure in failures):
        raise error
    return failures


async def upsert_all(collection: Collection, upserts: Sequence[UpdateOne]) -> None:
    """Apply upserts, in no order.

    Two concurrent inserts of the same row may collide: the server retries an upsert itself only if its filter is the
    unique key alone, and ours contain the organization, too. In the second attempt the row exists.
    """
    left = list(upserts)
    for _ in range(MAX_ATTEMPTS):
        try:
            await collection.bulk_write(left, ordered=False)
        except BulkWriteError as error:
            left = [left[failure["index"]] for failure in collisions(error)]
        else:
            return
    raise TransientError(f"gave up after {MAX_ATTEMPTS} conflicting writes")


class _Conflict(Exception):
    """Another transaction wrote the same row first."""


async def in_transaction(
    database: Database,
    work: Callable[[MongoSession], Awaitable[T]],
    *,
    within_s: float = TRANSACTION_WITHIN_S,
    lifetime_s: float = TRANSACTION_LIFETIME_S,
) -> T:
    """Run `work` in one transaction and return its value; an exception of `work` aborts it.

    All reads are from one snapshot. The commit is acknowledged by the majority, which then also has everything that
    `work` has read, even if it wrote nothing. `work` is run again after a write conflict, so its writes must be its
    only effect.

    Args:
        work: the commands of the transaction.
        within_s: how long all attempts may take together.
        lifetime_s: after how long the server ends a transaction, as `transaction_lifetime_s` says.

    Raises:
        WriteConflicts: after 10 conflicts.
        OutcomeUnknown: no majority acknowledged the commit in time.
        TransactionExpired: an attempt took longer than `lifetime_s`, or all of them than `within_s`; nothing was
            written. It is not retried here, because a retry would be too slow, too.
    """
    limits = _TimeLimits(monotonic() + within_s, lifetime_s)
    async with database.client.start_session() as session:
        for attempt in range(MAX_ATTEMPTS):
            try:
                async with _transaction(session, limits):
                    value = await work(session)
            except _Conflict:
                await asyncio.sleep(random.uniform(0, min(0.005 * 2**attempt, 0.5)))  # noqa: S311  # jitter, no secret
            else:
                include_in_later_reads(session)
                return value
    raise WriteConflicts(f"gave up after {MAX_ATTEMPTS} write conflicts")


@dataclass(frozen=True, slots=True)
class _TimeLimits:
    """Time limits of a transaction."""

    end: float
    """Deadline of all attempts, on the monotonic clock."""
    lifetime_s: float
    """Time limit of each attempt, kept by the server."""

    def have_passed(self, error: BaseException, *, since: float) -> bool:
        """Return whether an attempt that began at `since` failed because of a time limit."""
        if not isinstance(error, PyMongoError):
            return False
        now = monotonic()
        is_ended = isinstance(error, OperationFailure) and error.code in _ENDED_TRANSACTION
        return (is_ended and now - since >= self.lifetime_s) or (error.timeout and now >= self.end)


@asynccontextmanager
async def _transaction(session: MongoSession, limits: _TimeLimits) -> AsyncIterator[None]:
    """Begin a transaction, and commit it after the block; abort it if the block raises."""
    began = monotonic()
    await session.start_transaction(
        read_concern=ReadConcern("snapshot"),
        write_concern=WriteConcern("majority"),
        read_preference=ReadPreference.PRIMARY,
    )
    try:
        with _until(limits.end):
            yield
    except BaseException as error:
        await _abort(session)
        if limits.have_passed(error, since=began):
            raise _expired(began) from error
        if _is_conflict(error):
            raise _Conflict from error
        raise
    await _commit(session, limits, began=began)


def _expired(began: float) -> TransactionExpired:
    return TransactionExpired(f"a transaction was not finished after {monotonic() - began:.1f} s")


def _until(end: float) -> AbstractContextManager[None]:
    left_s = end - monotonic()
    if left_s <= 0:
        raise TransactionExpired("no time left for another attempt of a transaction")
    return pymongo.timeout(left_s)


async def _abort(session: MongoSession) -> None:
    # With its own time limit: a transaction that is not aborted keeps its locks for up to a minute.
    with pymongo.timeout(_ABORT_WITHIN_S), suppress(PyMongoError):
        await session.abort_transaction()


async def _commit(session: MongoSession, limits: _TimeLimits, *, began: float) -> None:
    was_sent = False
    while True:
        try:
            with _until(limits.end):
                was_sent = True
                await session.commit_transaction()
        except TransactionExpired as error:
            if was_sent:
                raise OutcomeUnknown("the outcome of a commit is unknown") from error
            raise
        except PyMongoError as error:
            if error.has_error_label("UnknownTransactionCommitResult") and limits.end - monotonic() > 0:
                await asyncio.sleep(_BEFORE_COMMITTING_AGAIN_S)
                continue
            if isinstance(error, OperationFailure) and limits.have_passed(error, since=began):
                raise _expired(began) from error
            if _is_conflict(error):
                raise _Conflict from error
            if is_passing(error):
                raise OutcomeUnknown("the outcome of a commit is unknown") from error
            raise
        else:
            return


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
