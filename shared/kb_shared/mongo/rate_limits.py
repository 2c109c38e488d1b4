"""`rate_limits`: token buckets that all replicas share, on the server's clock.

A row stores a debt for each limit: the milliseconds until the bucket is full again. A request may proceed once the debt
with it is at most `BURST_S`; a larger request, once there is no debt. So in any period at most the limit plus one burst
(or one larger request) is spent. A request that must wait is added to the debt at once and gets its waiting time: later
requests wait behind it, on every replica. Debts are durations, so a server clock that is set back (another primary)
does not prolong them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pymongo import ASCENDING, IndexModel, ReturnDocument, WriteConcern
from pymongo.errors import DuplicateKeyError

from kb_shared.mongo.database import Collection, Database, Row
from kb_shared.mongo.keys import KnowledgeBaseKey

NAME = "rate_limits"
INDEXES = [IndexModel([("at", ASCENDING)], expireAfterSeconds=7 * 24 * 3600)]

BURST_S: Final = 0.5
"""Seconds of its rate that a bucket holds."""

_DEBTS: Final = ("requests_ms", "tokens_ms")
_DECAYING: Final = (*_DEBTS, "closed_ms")


@dataclass(frozen=True, slots=True)
class Bucket:
    """Limited resource with its limits; None: no limit. The caller passes them, so that a change counts at once."""

    organization_id: str
    name: str
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    closable: bool = False
    """True if it is checked even without a limit: its provider may ask for a pause."""

    @classmethod
    def of_knowledge_base(cls, key: KnowledgeBaseKey, limits: Mapping[str, int]) -> "Bucket":
        return cls(
            key.organization_id, f"kb/{key.kb_id}", limits.get("requests_per_minute"), limits.get("tokens_per_minute")
        )

    @classmethod
    def of_model(
        cls, organization_id: str, model: str, *, requests_per_minute: int | None, tokens_per_minute: int | None
    ) -> "Bucket":
        return cls(organization_id, f"model/{model}", requests_per_minute, tokens_per_minute, closable=True)

    @property
    def scope(self) -> str:
        """Return the label for metrics: `kb` or `model`."""
        return self.name.partition("/")[0]

    @property
    def row_id(self) -> str:
        return f"{self.organization_id}/{self.name}"

    @property
    def limited(self) -> bool:
        return self.requests_per_minute is not None or self.tokens_per_minute is not None

    def costs_ms(self, requests: int, tokens: int) -> dict[str, float]:
        """Return the milliseconds in which each limit refills what a request takes, by the field of its debt."""
        asked = zip(_DEBTS, (requests, tokens), (self.requests_per_minute, self.tokens_per_minute), strict=True)
        return {debt: amount * 60_000 / limit for debt, amount, limit in asked if limit is not None}


@dataclass(frozen=True, slots=True)
class Closing:
    """Pauses of a bucket."""

    left_s: float
    """Seconds until the bucket opens; 0 while it is open."""
    total_s: float
    """Sum of all pauses, past and present: a reservation may go as much later as the sum has grown since."""


@dataclass(frozen=True, slots=True)
class RateReservation:
    made: bool
    number: int
    wait_s: float
    """Seconds until the reserved units may be spent."""
    closing: Closing


@dataclass(frozen=True, slots=True)
class SpendResult:
    made: bool
    debt_s: float
    """Seconds until the bucket is full again."""


async def reserve(
    database: Database, bucket: Bucket, *, requests: int, tokens: int, longest_wait_s: float
) -> RateReservation:
    """Reserve units behind all earlier reservations, unless that means to wait for more than `longest_wait_s`."""
    costs = bucket.costs_ms(requests, tokens)
    credit = {debt: max(0.0, BURST_S * 1000 - cost) for debt, cost in costs.items()}
    wait = {"$max": ["$closed_ms", *({"$subtract": [f"${debt}", credit[debt]]} for debt in costs)]}
    # A limit is not spent before the others allow it, so its debt begins no earlier.
    owed = {debt: {"$add": [{"$max": [f"${debt}", "$wait_ms"]}, cost]} for debt, cost in costs.items()}
    longest_wait_ms = longest_wait_s * 1000
    made = {"$lte": ["$wait_ms", longest_wait_ms]}
    row = await _update(
        database,
        bucket,
        [
            {"$set": {"wait_ms": wait}},
            {"$set": {"number": {"$add": ["$number", {"$cond": [made, 1, 0]}]}}},
            {"$set": {debt: {"$cond": [made, total, f"${debt}"]} for debt, total in owed.items()}},
        ],
    )
    wait_ms = row["wait_ms"]
    return RateReservation(wait_ms <= longest_wait_ms, row["number"], wait_ms / 1000, _closing(row))


async def spend(database: Database, bucket: Bucket, *, owed_s: float, cost_s: float, burst_s: float) -> SpendResult:
    """Add what this process spent by itself, then spend `cost_s` more if at most `burst_s` is owed. Never waits.

    Args:
        database: of all replicas.
        bucket: of requests; the caller applies its limit.
        owed_s: seconds in which the bucket refills what this process spent by itself; negative for units that it gives
            back. Added in any case.
        cost_s: seconds in which the bucket refills the further request.
        burst_s: greatest debt at which the further request is spent.
    """
    row = await _update_if(
        database,
        bucket,
        [
            {"$set": {"wait_ms": {"$max": [0, {"$add": ["$requests_ms", owed_s * 1000]}]}}},
            {
                "$set": {
                    "requests_ms": {
                        "$add": ["$wait_ms", {"$cond": [{"$lte": ["$wait_ms", burst_s * 1000]}, cost_s * 1000, 0]}]
                    }
                }
            },
        ],
        # A caller that spends nothing more has a row already, unless the bucket was reset.
        upsert=cost_s > 0,
    )
    if row is None:
        return SpendResult(True, 0.0)
    return SpendResult(row["wait_ms"] <= burst_s * 1000, row["requests_ms"] / 1000)


async def give_back(
    database: Database, bucket: Bucket, reservation: RateReservation, *, requests: int, tokens: int
) -> None:
    """Subtract unspent units from the debt, unless there is a later reservation, whose waiting time is fixed."""
    is_last = {"$eq": ["$number", reservation.number]}
    less = {
        debt: {"$cond": [is_last, {"$max": [0, {"$subtract": [f"${debt}", cost]}]}, f"${debt}"]}
        for debt, cost in bucket.costs_ms(requests, tokens).items()
    }
    await _update(database, bucket, [{"$set": less}])


async def close(database: Database, bucket: Bucket, *, for_s: float) -> Closing:
    """Close the bucket for `for_s` seconds from now; a longer pause that began before is unchanged."""
    longer = {"$max": [0, {"$subtract": [for_s * 1000, "$closed_ms"]}]}
    fields = ("closed_total_ms", "closed_ms", *_DEBTS)
    row = await _update(
        database,
        bucket,
        [
            {"$set": {"longer_ms": longer}},
            # The debts, too: during a pause the bucket does not refill.
            {"$set": {field: {"$add": [f"${field}", "$longer_ms"]} for field in fields}},
            {"$unset": "longer_ms"},
        ],
    )
    return _closing(row)


async def read_closing(database: Database, bucket: Bucket) -> Closing:
    """Return whether, and for how long, the bucket is closed. Changes nothing."""
    row = await _collection(database).find_one(
        _key(bucket), {"closed_ms": _decayed("closed_ms"), "closed_total_ms": {"$ifNull": ["$closed_total_ms", 0]}}
    )
    return _closing(row) if row else Closing(0, 0)


async def reset(database: Database, bucket: Bucket) -> None:
    """Delete the debts of a bucket, because its limits have changed. Waiting times that were returned stay valid."""
    await _collection(database).delete_one(_key(bucket))


async def reset_models(database: Database, organization_id: str) -> None:
    """Delete the debts of all models of an organization, because they are used with another key."""
    of_models = {"$gte": f"{organization_id}/model/", "$lt": f"{organization_id}/model0"}
    await _collection(database).delete_many({"_id": of_models, "organization_id": organization_id})


def _closing(row: Row) -> Closing:
    return Closing(row["closed_ms"] / 1000, row["closed_total_ms"] / 1000)


async def _update(database: Database, bucket: Bucket, stages: list[Row]) -> Row:
    """Update the row to the current time, or insert it, then apply `stages`, in one atomic update."""
    row = await _update_if(database, bucket, stages, upsert=True)
    assert row is not None, "it is inserted if it is not there"
    return row


async def _update_if(database: Database, bucket: Bucket, stages: list[Row], *, upsert: bool) -> Row | None:
    present = {
        "at": "$$NOW",
        **{field: _decayed(field) for field in _DECAYING},
        "closed_total_ms": {"$ifNull": ["$closed_total_ms", 0]},
        "number": {"$ifNull": ["$number", 0]},
    }

    async def update() -> Row | None:
        return await _collection(database).find_one_and_update(
            _key(bucket), [{"$set": present}, *stages], upsert=upsert, return_document=ReturnDocument.AFTER
        )

    try:
        return await update()
    except DuplicateKeyError:
        # Another replica inserted the row at the same time. Now it exists.
        return await update()


def _decayed(field: str) -> Row:
    elapsed = {"$max": [0, {"$subtract": ["$$NOW", {"$ifNull": ["$at", "$$NOW"]}]}]}
    return {"$max": [0, {"$subtract": [{"$ifNull": [f"${field}", 0]}, elapsed]}]}


def _key(bucket: Bucket) -> Row:
    return {"_id": bucket.row_id, "organization_id": bucket.organization_id}


def _collection(database: Database) -> Collection:
    # Not acknowledged by the majority: an election loses at most a burst.
    return database.get_collection(NAME, write_concern=WriteConcern(1))
