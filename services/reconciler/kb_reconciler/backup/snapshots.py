"""Reads at one cluster time, as long as the server keeps the history of it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from bson import Timestamp
from pydantic import BaseModel, ConfigDict
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from kb_reconciler.backup.errors import BackupRefused
from kb_shared.mongo import knowledge_bases
from kb_shared.mongo.database import Collection, Database

ATTEMPTS: Final = 3
"""Number of cluster times at which the same rows are tried."""
_HISTORY_GONE: Final = frozenset({239, 246})
"""Error codes: the server no longer has the history, or a collection or index was created or dropped since."""

T = TypeVar("T")


class ClusterTime(BaseModel):
    """Time of the replica set's clock, as the oplog has it."""

    model_config = ConfigDict(frozen=True)

    seconds: int
    """Seconds since 1970."""
    increment: int
    """Number of the operation within the second."""

    @property
    def timestamp(self) -> Timestamp:
        return Timestamp(self.seconds, self.increment)


class HistoryGone(Exception):
    """The server can't read at this cluster time any more."""


class _AtClusterTime(ReadConcern):
    """Read concern `snapshot` at a given time. The driver's own snapshot sessions choose theirs themselves."""

    def __init__(self, time: ClusterTime) -> None:
        super().__init__("snapshot")
        self._time = time

    @property
    def document(self) -> dict[str, Any]:
        return {**super().document, "atClusterTime": self._time.timestamp}


def collection_at(database: Database, name: str, *, time: ClusterTime) -> Collection:
    """Return a collection as it was at `time`. One that did not exist then, or does not exist now, is empty."""
    return database.get_collection(name, read_concern=_AtClusterTime(time))


async def read_cluster_time(database: Database) -> ClusterTime:
    """Return the newest time that a majority of the members has."""
    reply = await database.command(
        {"find": knowledge_bases.NAME, "limit": 1, "projection": {"_id": 1}, "readConcern": {"level": "snapshot"}}
    )
    time = reply["cursor"]["atClusterTime"]
    return ClusterTime(seconds=time.time, increment=time.inc)


@dataclass(slots=True)
class SnapshotClock:
    """Cluster time at which a backup reads; a new one is taken when the server has lost the history of the last."""

    database: Database
    time: ClusterTime
    history_s: float | None = None
    """Length of the server's history, if this user may ask for it."""

    async def read(self, name: str, read: Callable[[ClusterTime], Awaitable[T]]) -> tuple[T, ClusterTime]:
        """Return what `read` returns, and the time at which it has read; repeat it at a new time if necessary.

        Raises:
            BackupRefused: the history is shorter than `read` takes.
        """
        for attempt in range(ATTEMPTS):
            time = self.time
            try:
                return await read(time), time
            except HistoryGone:
                pass
            except OperationFailure as error:
                if error.code not in _HISTORY_GONE:
                    raise
            if attempt < ATTEMPTS - 1:
                self.time = await read_cluster_time(self.database)
        raise BackupRefused(self._too_short(name))

    def _too_short(self, name: str) -> str:
        kept = "" if self.history_s is None else f" of {self.history_s:g} s"
        return (
            f"{name} can't be read at one cluster time: that takes longer than the server's snapshot history{kept}, or"
            " its indexes are being created. Set the server parameter minSnapshotHistoryWindowInSeconds to a longer"
            " time, and run the same command again: it continues"
        )


def is_history_gone(error: PyMongoError) -> bool:
    """Return whether a read failed because its cluster time is too old."""
    return isinstance(error, OperationFailure) and error.code in _HISTORY_GONE


async def find_history_s(database: Database) -> float | None:
    """Return how long the server keeps the history for snapshots; None if this user may not ask."""
    try:
        answer = await database.client.admin.command("getParameter", 1, minSnapshotHistoryWindowInSeconds=1)
    except PyMongoError:
        return None
    return float(answer["minSnapshotHistoryWindowInSeconds"])
