"""`crawl_frontier`: the items of open runs, read or not, so that a run that is killed continues where it was."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from pymongo import ASCENDING, DESCENDING, IndexModel, ReturnDocument
from pymongo.errors import BulkWriteError

from kb_knowledge.sources.frontier import MAX_ITEMS, ClaimedItem, FrontierItem, FrontierKind, FrontierTotals
from kb_knowledge.sources.source_items import ItemOutcome
from kb_knowledge.store.source_runs import SourceRun
from kb_shared.mongo.database import Database, MongoSession, Row, collisions

NAME = "crawl_frontier"
_KEPT_S: Final = 7 * 86_400
"""Age at which rows are deleted of which the run has been lost."""
INDEXES = [
    IndexModel([(field, ASCENDING) for field in ("organization_id", "run_id", "state", "rank", "sequence")]),
    IndexModel([("created_at", ASCENDING)], expireAfterSeconds=_KEPT_S),
]
_TAKEN: Final = "taken"
_WAITING: Final = "waiting"
"""States are sorted: an item that a runner had taken when it was killed comes before those that wait."""
_READ: Final = "read"
_ROBOTS: Final = "robots"


class StoredFrontier:
    """The frontier of one run. One runner at a time uses it."""

    def __init__(self, database: Database, run: SourceRun) -> None:
        self._rows = database[NAME]
        self._run = {"organization_id": run.organization_id, "run_id": run.run_id}
        self._next_sequence: int | None = None

    async def add(self, items: Sequence[FrontierItem]) -> None:
        if not items:
            return
        if self._next_sequence is None:
            last = await self._rows.find_one({**self._run, "state": {"$ne": _ROBOTS}}, sort=[("sequence", DESCENDING)])
            self._next_sequence = 0 if last is None else last["sequence"] + 1
        room = MAX_ITEMS - self._next_sequence
        by_address = {item.address: item for item in items}
        rows = [self._to_row(item, self._next_sequence + number) for number, item in enumerate(by_address.values())][
            : max(room, 0)
        ]
        self._next_sequence += len(rows)
        if not rows:
            return
        try:
            await self._rows.insert_many(rows, ordered=False)
        except BulkWriteError as error:
            # Those that the run has already.
            collisions(error)

    async def claim_next(self) -> ClaimedItem | None:
        row = await self._rows.find_one_and_update(
            {**self._run, "state": {"$in": [_TAKEN, _WAITING]}},
            {"$set": {"state": _TAKEN}, "$inc": {"attempts": 1}},
            sort=[("state", ASCENDING), ("rank", ASCENDING), ("sequence", ASCENDING)],
            return_document=ReturnDocument.AFTER,
        )
        if row is None:
            return None
        item = FrontierItem(row["address"], FrontierKind(row["kind"]), row["depth"], row["redirects"])
        return ClaimedItem(item, row["attempts"])

    async def finish(self, item: FrontierItem, outcome: ItemOutcome, *, key: str | None, bytes_read: int) -> None:
        fields = {"state": _READ, "outcome": outcome, "key": key, "bytes": bytes_read}
        await self._rows.update_one({**self._run, "_id": self._id(item.address)}, {"$set": fields})

    async def totals(self) -> FrontierTotals:
        stages: list[Row] = [
            {"$match": {**self._run, "state": {"$ne": _ROBOTS}}},
            {
                "$group": {
                    "_id": {"kind": "$kind", "outcome": "$outcome"},
                    "items": {"$sum": 1},
                    "bytes": {"$sum": "$bytes"},
                }
            },
        ]
        totals = FrontierTotals()
        async for group in await self._rows.aggregate(stages):
            totals.items += group["items"]
            totals.bytes_read += group["bytes"]
            outcome = group["_id"].get("outcome")
            if outcome is not None and group["_id"]["kind"] == FrontierKind.PAGE:
                totals.outcomes[ItemOutcome(outcome)] = group["items"]
        return totals

    async def find_seen_keys(self) -> set[str]:
        rows = self._rows.find({**self._run, "key": {"$ne": None}}, {"key": 1})
        return {row["key"] async for row in rows if "key" in row}

    async def find_robots(self, origin: str) -> tuple[int, bytes] | None:
        row = await self._rows.find_one({**self._run, "_id": self._id(f"{_ROBOTS} {origin}")})
        return None if row is None else (row["status"], bytes(row["body"]))

    async def put_robots(self, origin: str, *, status: int, body: bytes) -> None:
        identity = {**self._run, "_id": self._id(f"{_ROBOTS} {origin}")}
        fields = {"state": _ROBOTS, "status": status, "body": body, "created_at": datetime.now(UTC)}
        await self._rows.update_one(identity, {"$set": fields}, upsert=True)

    async def delete(self, session: MongoSession | None = None) -> None:
        await self._rows.delete_many(self._run, session=session)

    def _to_row(self, item: FrontierItem, sequence: int) -> dict[str, Any]:
        return {
            "_id": self._id(item.address),
            **self._run,
            "address": item.address,
            "kind": item.kind,
            "depth": item.depth,
            "redirects": item.redirects,
            "rank": item.rank,
            "sequence": sequence,
            "state": _WAITING,
            "attempts": 0,
            "created_at": datetime.now(UTC),
        }

    def _id(self, address: str) -> str:
        return f"{self._run['run_id']}/{hashlib.sha256(address.encode()).hexdigest()[:32]}"
