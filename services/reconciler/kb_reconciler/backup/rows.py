"""Reads rows of a deployment at a cluster time into a file."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import bson
from pymongo import ASCENDING
from pymongo.errors import OperationFailure

from kb_reconciler.backup.dump_layout import DumpFile, count_rows
from kb_reconciler.backup.scope import BackupScope, Matching, Referenced, Selection, select_shared
from kb_reconciler.backup.snapshots import ClusterTime, collection_at, is_history_gone, read_cluster_time
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase

_VALUES_PER_QUERY: Final = 1_000
_TIMES_WITHOUT_PROGRESS: Final = 3

OnRows = Callable[[int], None]
"""Function that is called with the number of rows that were read since the last call."""


def ignore_rows(_: int) -> None:
    """Show no progress."""


@dataclass(frozen=True, slots=True)
class RowReader:
    """Rows of a scope, at one cluster time."""

    database: Database
    scope: BackupScope
    time: ClusterTime
    kb: KnowledgeBase | None = None
    """KB of the scope, if it is one KB."""
    on_rows: OnRows = ignore_rows

    async def write(self, collection: str, selection: Selection, file: DumpFile) -> None:
        """Write the selected rows to the file."""
        async for query in self._queries(selection):
            await self._write(collection, query, file)

    async def _write(self, collection: str, query: Row, file: DumpFile) -> None:
        rows = collection_at(self.database, collection, time=self.time).find_raw_batches(query)
        async for batch in rows:
            await _write_batch(file, batch, self.on_rows)

    async def _queries(self, selection: Selection) -> AsyncIterator[Row]:
        if isinstance(selection, Matching):
            yield selection.query()
            return
        async for values in self._referenced_values(selection):
            yield {"$and": [{selection.field: {"$in": values}}, selection.within.query()]}

    async def _referenced_values(self, selection: Referenced) -> AsyncIterator[list[Any]]:
        """Yield the values that rows of the parent refer to, some at a time."""
        of_parent = select_shared(selection.parent, self.scope, self.kb)
        assert of_parent is not None
        values: list[Any] = []
        async for query in self._queries(of_parent):
            parents = collection_at(self.database, selection.parent, time=self.time)
            async for row in parents.find(query, {selection.parent_field: 1}):
                if row.get(selection.parent_field) is not None:
                    values.append(row[selection.parent_field])
                if len(values) == _VALUES_PER_QUERY:
                    yield values
                    values = []
        if values:
            yield values


async def _write_batch(file: DumpFile, batch: Any, on_rows: OnRows) -> bytes:
    """Write the rows of a batch, which the driver declares as rows but gives as bytes, and return the last one."""
    rows, last = count_rows(batch)
    if rows:
        await asyncio.to_thread(file.write, batch, rows=rows)
        on_rows(rows)
    return last


async def write_in_order(
    database: Database,
    collection: str,
    query: Row,
    *,
    file: DumpFile,
    time: ClusterTime,
    on_rows: OnRows = ignore_rows,
) -> tuple[ClusterTime, ...]:
    """Write rows in the order of their ids, and continue at a new time when the server has lost the history.

    For rows that do not depend on each other: a collection may take longer than any history.

    Returns:
        The times at which they were read.
    """
    times = [time]
    after: Any = None
    without_progress = 0
    while True:
        beyond = query if after is None else {"$and": [query, {"_id": {"$gt": after}}]}
        ordered = {"sort": [("_id", ASCENDING)], "allow_disk_use": True}
        rows = collection_at(database, collection, time=times[-1]).find_raw_batches(beyond, **ordered)
        try:
            async for batch in rows:
                if last := await _write_batch(file, batch, on_rows):
                    after, without_progress = bson.decode(last)["_id"], 0
        except OperationFailure as error:
            without_progress += 1
            if not is_history_gone(error) or without_progress == _TIMES_WITHOUT_PROGRESS:
                raise
            times.append(await read_cluster_time(database))
        else:
            return tuple(times)
