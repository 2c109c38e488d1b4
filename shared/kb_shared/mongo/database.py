"""The way to MongoDB: one client a process, majority writes, transactions that give up in time."""

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
from kb_shared.mongo.majority import note
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
"""How long a command may take with all its retries, the wait for the majority included. A caller over HTTP gets its 503
within 15 s."""
LONG_COMMAND_WITHIN_S: Final = 3_600.0
"""How long the commands of `long_commands` may take."""
TRANSACTION_WITHIN_S: Final = 10.0
"""How long a transaction may take, from its first attempt to its commit."""
TRANSACTION_LIFETIME_S: Final = 60.0
"""After how long MongoDB ends a transaction by default."""
_ABORT_WITHIN_S: Final = 2.0
_BEFORE_COMMITTING_AGAIN_S: Final = 0.1


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
        # Each command and each batch of a cursor. It takes the place of `wtimeoutMS`, also of one in the URI.
        timeoutMS=int(COMMAND_WITHIN_S * 1000),
        serverSelectionTimeoutMS=int(COMMAND_WITHIN_S * 1000),
        appname="knowledge-bases",
    )
    return client[settings.mongo_database]


async def transaction_lifetime_s(database: Database) -> float:
    """Ask MongoDB after how long it ends a transaction; its default where it does not say, or not to this user."""
    try:
        answer = await database.client.admin.command("getParameter", 1, transactionLifetimeLimitSeconds=1)
    except PyMongoError:
        return TRANSACTION_LIFETIME_S
    return float(answer["transactionLifetimeLimitSeconds"])


def long_commands() -> AbstractContextManager[None]:
    """Give the commands in the block the time to build an index, or to write every row, of a large collection."""
    return pymongo.timeout(LONG_COMMAND_WITHIN_S)


_ENDED_TRANSACTION: Final = frozenset({251, 290})
"""The server knows the transaction no more, or has just ended it because of its age."""
_PASSING_CODES = frozenset(
    {6, 7, 50, 64, 79, 89, 91, 100, 112, 189, 202, 246, 251, 262, 290}
    | {9001, 10107, 11600, 11601, 11602, 13388, 13435, 13436}
    # While a password is being changed, events wait and are no dead letters.
    | {AUTHENTICATION_FAILED}
)
"""Codes of transient server errors (elections, shutdowns, lost connections, write conflicts, time limits)."""


@contextmanager
def mongo_errors() -> Iterator[None]:
    """Raise MongoDB's passing failures as `TransientError`, a missed deadline as `TimedOut`; a bug stays what it is."""
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
        raise TransientError(f"MongoDB is not able now ({type(error).__name__}, code {code})") from error


def is_passing(error: PyMongoError) -> bool:
    """Say whether later may help. Any write concern error is one: the write may be there, and may be lost."""
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
    """The duplicate keys that a bulk write met, if that is all that went wrong; raises `error` otherwise.

    With a write concern error all of them may be lost, also the rows that they collided with.
    """
    failures: list[Row] = error.details.get("writeErrors", [])
    if error.details.get("writeConcernErrors") or any(_code(failure) != DUPLICATE_KEY for failure in failures):
        raise error
    return failures


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

    Reads are snapshots; the commit is acknowledged by the majority, which then has also all that `work` has read, even
    if it wrote nothing. `work` is repeated after a write conflict, so it must have no effect but its writes.

    Args:
        work: the commands of the transaction.
        within_s: how long all attempts may take together.
        lifetime_s: after how long the server ends a transaction, as `transaction_lifetime_s` says.

    Raises:
        WriteConflicts: after 10 conflicts.
        OutcomeUnknown: no majority acknowledged the commit in time.
        TransactionExpired: an attempt outlived `lifetime_s`, or all of them `within_s`; nothing is done. It is not
            restarted here: what made it late would make it late again.
    """
    limits = _Limits(monotonic() + within_s, lifetime_s)
    async with database.client.start_session() as session:
        for attempt in range(MAX_ATTEMPTS):
            try:
                async with _transaction(session, limits):
                    value = await work(session)
            except _Conflict:
                await asyncio.sleep(random.uniform(0, min(0.005 * 2**attempt, 0.5)))  # noqa: S311  # jitter, no secret
            else:
                note(session)
                return value
    raise WriteConflicts(f"{MAX_ATTEMPTS} write conflicts in a row")


@dataclass(frozen=True, slots=True)
class _Limits:
    """Time limits of a transaction."""

    end: float
    """Deadline of all attempts, on the monotonic clock."""
    lifetime_s: float
    """Time limit of each attempt, kept by the server."""

    def have_passed(self, error: BaseException, *, since: float) -> bool:
        """Say whether an attempt that began at `since` failed because its time was over."""
        if not isinstance(error, PyMongoError):
            return False
        now = monotonic()
        is_ended = isinstance(error, OperationFailure) and error.code in _ENDED_TRANSACTION
        return (is_ended and now - since >= self.lifetime_s) or (error.timeout and now >= self.end)


@asynccontextmanager
async def _transaction(session: MongoSession, limits: _Limits) -> AsyncIterator[None]:
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
    return TransactionExpired(f"a transaction was not done after {monotonic() - began:.1f} s")


def _until(end: float) -> AbstractContextManager[None]:
    left_s = end - monotonic()
    if left_s <= 0:
        raise TransactionExpired("there was no time left for a transaction")
    return pymongo.timeout(left_s)


async def _abort(session: MongoSession) -> None:
    # With time of its own: what is not aborted keeps its locks until the server gives up on it, for a minute.
    with pymongo.timeout(_ABORT_WITHIN_S), suppress(PyMongoError):
        await session.abort_transaction()


async def _commit(session: MongoSession, limits: _Limits, *, began: float) -> None:
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
