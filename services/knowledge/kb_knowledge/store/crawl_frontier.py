"""`crawl_frontier`: the items of open runs, read or not, so that a run that is killed continues where it was."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from pymongo import ASCENDING, DESCENDING, IndexModel, ReturnDocument
from pymongo.errors import BulkWriteError

from kb_knowledge.sources.frontier import (
    MAX_ITEMS,
    ClaimedItem,
    FinishedItem,
    FrontierItem,
    FrontierKind,
    FrontierTotals,
    HeldItem,
)
from kb_knowledge.sources.source_items import ItemOutcome, SourceItem, Validators
from kb_knowledge.store.source_runs import SourceRun
from kb_shared.mongo.database import Database, MongoSession, Row, collisions
from kb_shared.mongo.rows import RowMapper

NAME = "crawl_frontier"
_KEPT_S: Final = 7 * 86_400
"""Age at which rows are deleted of which the run has been lost."""
INDEXES = [
    IndexModel([(field, ASCENDING) for field in ("organization_id", "run_id", "state", "rank", "sequence")]),
    IndexModel([("created_at", ASCENDING)], expireAfterSeconds=_KEPT_S),
]
_HELD: Final = RowMapper(
    HeldItem,
    convert={
        "item": RowMapper(SourceItem).read,
        "validators": RowMapper(Validators).read,
        "links": tuple,
        "warnings": tuple,
    },
)
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
        by_id = {self._id(item.address): item for item in items}
        known = self._rows.find({**self._run, "_id": {"$in": [*by_id]}}, {"_id": 1})
        for row_id in {row["_id"] async for row in known}:
            del by_id[row_id]
        room = max(MAX_ITEMS - self._next_sequence, 0)
        rows = [self._to_row(item, self._next_sequence + n) for n, item in enumerate([*by_id.values()][:room])]
        if not rows:
            return
        self._next_sequence += len(rows)
        try:
            await self._rows.insert_many(rows, ordered=False)
        except BulkWriteError as error:
            # Those that another runner has added, which has lost the run.
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

    async def finish(self, item: FrontierItem, finished: FinishedItem) -> None:
        fields: Row = {
            "state": _READ,
            "outcome": finished.outcome,
            "key": finished.key,
            "bytes": finished.bytes_read,
            "message": finished.message,
            "warnings": finished.warnings,
            "text_digest": finished.text_digest,
            "text_before": finished.text_before,
        }
        if finished.held is not None:
            fields["held"] = asdict(finished.held)
        await self._rows.update_one({**self._run, "_id": self._id(item.address)}, {"$set": fields})

    async def totals(self) -> FrontierTotals:
        stages: list[Row] = [
            {"$match": {**self._run, "state": {"$ne": _ROBOTS}}},
            {
                "$group": {
                    "_id": {"kind": "$kind", "outcome": "$outcome"},
                    "items": {"$sum": 1},
                    "bytes": {"$sum": "$bytes"},
                    "warned": {"$sum": {"$cond": [{"$gt": ["$warnings", 0]}, 1, 0]}},
                }
            },
        ]
        totals = FrontierTotals()
        async for group in await self._rows.aggregate(stages):
            totals.items += group["items"]
            totals.bytes_read += group["bytes"]
            totals.warned += group["warned"]
            outcome = group["_id"].get("outcome")
            if outcome is not None and group["_id"]["kind"] == FrontierKind.PAGE:
                totals.outcomes[ItemOutcome(outcome)] = group["items"]
        return totals

    async def find_seen_keys(self) -> set[str]:
        rows = self._rows.find({**self._run, "key": {"$ne": None}}, {"key": 1})
        return {row["key"] async for row in rows if "key" in row}

    async def find_first_failure(self) -> str | None:
        query = {**self._run, "outcome": ItemOutcome.FAILED}
        row = await self._rows.find_one(query, {"address": 1, "message": 1}, sort=[("sequence", ASCENDING)])
        return None if row is None else f"{row['address']}: {row['message']}"

    async def find_redirected(self) -> set[str]:
        """Return the addresses that led to others."""
        rows = self._rows.find({**self._run, "outcome": ItemOutcome.REDIRECTED}, {"address": 1})
        return {row["address"] async for row in rows}

    async def find_held(self) -> Sequence[str]:
        """Return the addresses of the items that are held, in the order in which they were found."""
        rows = self._rows.find({**self._run, "held": {"$ne": None}}, {"address": 1}).sort("sequence")
        return [row["address"] async for row in rows]

    async def find_common_texts(self) -> set[str]:
        """Return the digests of texts that items have now which had different ones before."""
        stages: list[Row] = [
            {"$match": {**self._run, "text_digest": {"$ne": None}, "text_before": {"$ne": None}}},
            {"$group": {"_id": "$text_digest", "before": {"$addToSet": "$text_before"}}},
            {"$match": {"before.1": {"$exists": True}}},
        ]
        return {group["_id"] async for group in await self._rows.aggregate(stages)}

    async def get_held(self, address: str) -> tuple[HeldItem, str]:
        """Return a held item with the digest of its text."""
        row = await self._rows.find_one({**self._run, "_id": self._id(address)})
        if row is None:
            raise KeyError("the item is not held")
        return _HELD.read(row["held"]), row["text_digest"]

    async def settle_held_item(self, address: str, outcome: ItemOutcome, *, message: str | None) -> None:
        """Mark a held item as stored, or as refused. The digest of its text stays: it says what others are."""
        change = {"$set": {"outcome": outcome, "message": message}, "$unset": {"held": ""}}
        await self._rows.update_one({**self._run, "_id": self._id(address)}, change)

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
