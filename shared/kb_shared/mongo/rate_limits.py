"""`rate_limits`: how much of each limit is spent, for all replicas together, on the server's clock.

A row holds debts: for each limit the milliseconds until the bucket is full again. An ask goes once it would leave no
more than `BURST_S` of debt, or, if it is larger than that, once there is none; so in any stretch of time no more is
spent than the limit allows in it and one burst, or one ask where that is larger. An ask that can't go yet is added to
the debt all the same and told how long to wait: whoever comes later waits behind it, on every replica. Debts are
durations, so a server clock that jumps back (another primary) costs nobody the jump.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pymongo import ASCENDING, IndexModel, ReturnDocument, WriteConcern
from pymongo.errors import DuplicateKeyError

from kb_shared.mongo.database import Collection, Database, Row

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
    def of_knowledge_base(cls, organization_id: str, kb_id: str, limits: Mapping[str, int]) -> "Bucket":
        return cls(organization_id, f"kb/{kb_id}", limits.get("requests_per_minute"), limits.get("tokens_per_minute"))

    @classmethod
    def of_model(
        cls, organization_id: str, model: str, *, requests_per_minute: int | None, tokens_per_minute: int | None
    ) -> "Bucket":
        return cls(organization_id, f"model/{model}", requests_per_minute, tokens_per_minute, closable=True)

    @property
    def scope(self) -> str:
        """For metrics: `kb` or `model`."""
        return self.name.partition("/")[0]

    @property
    def row_id(self) -> str:
        return f"{self.organization_id}/{self.name}"

    @property
    def limited(self) -> bool:
        return self.requests_per_minute is not None or self.tokens_per_minute is not None

    def costs_ms(self, requests: int, tokens: int) -> dict[str, float]:
        """How long each limit takes to make good for an ask, by the field of its debt."""
        asked = zip(_DEBTS, (requests, tokens), (self.requests_per_minute, self.tokens_per_minute), strict=True)
        return {debt: amount * 60_000 / limit for debt, amount, limit in asked if limit is not None}


@dataclass(frozen=True, slots=True)
class Closing:
    """Pauses of a bucket."""

    left_s: float
    """Until the bucket opens; 0 while it is open."""
    total_s: float
    """Sum of all pauses, past and present: a reservation may go as much later as the sum has grown since."""


@dataclass(frozen=True, slots=True)
class Reservation:
    made: bool
    number: int
    wait_s: float
    """Until what was asked for may be spent."""
    closing: Closing


@dataclass(frozen=True, slots=True)
class Spent:
    made: bool
    debt_s: float
    """Until the bucket is full again."""


async def reserve(
    database: Database, bucket: Bucket, *, requests: int, tokens: int, longest_wait_s: float
) -> Reservation:
    """Reserve behind all earlier reservations; one that would wait longer than `longest_wait_s` is not made."""
    costs = bucket.costs_ms(requests, tokens)
    credit = {debt: max(0.0, BURST_S * 1000 - cost) for debt, cost in costs.items()}
    wait = {"$max": ["$closed_ms", *({"$subtract": [f"${debt}", credit[debt]]} for debt in costs)]}
    # Nothing of a limit can be spent before the others allow it, so its debt begins no earlier.
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
    return Reservation(wait_ms <= longest_wait_ms, row["number"], wait_ms / 1000, _closing(row))


async def spend(database: Database, bucket: Bucket, *, owed_s: float, cost_s: float, burst_s: float) -> Spent:
    """Note what was spent elsewhere, and spend `cost_s` more if no more than `burst_s` is owed by then; nobody waits.

    Args:
        database: of all replicas.
        bucket: of requests; its limit is the caller's to apply.
        owed_s: seconds that the bucket takes to make good for what this process spent by itself, less than 0 for what
            it gives back; noted in any case.
        cost_s: likewise, of the one more.
        burst_s: how much may be owed before it.
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
        # Who spends nothing more has a row, unless somebody has begun the bucket again.
        upsert=cost_s > 0,
    )
    if row is None:
        return Spent(True, 0.0)
    return Spent(row["wait_ms"] <= burst_s * 1000, row["requests_ms"] / 1000)


async def give_back(
    database: Database, bucket: Bucket, reservation: Reservation, *, requests: int, tokens: int
) -> None:
    """Take unspent units off the debt, unless somebody has reserved behind them and been told when to go."""
    is_last = {"$eq": ["$number", reservation.number]}
    less = {
        debt: {"$cond": [is_last, {"$max": [0, {"$subtract": [f"${debt}", cost]}]}, f"${debt}"]}
        for debt, cost in bucket.costs_ms(requests, tokens).items()
    }
    await _update(database, bucket, [{"$set": less}])


async def close(database: Database, bucket: Bucket, *, for_s: float) -> Closing:
    """Let nobody go for `for_s` seconds from now; a longer pause that has begun already stays as it is."""
    longer = {"$max": [0, {"$subtract": [for_s * 1000, "$closed_ms"]}]}
    fields = ("closed_total_ms", "closed_ms", *_DEBTS)
    row = await _update(
        database,
        bucket,
        [
            {"$set": {"longer_ms": longer}},
            # The debts, too: in a pause nothing is made good.
            {"$set": {field: {"$add": [f"${field}", "$longer_ms"]} for field in fields}},
            {"$unset": "longer_ms"},
        ],
    )
    return _closing(row)


async def look(database: Database, bucket: Bucket) -> Closing:
    """Is the bucket closed? Changes nothing."""
    row = await _collection(database).find_one(
        _key(bucket), {"closed_ms": _decayed("closed_ms"), "closed_total_ms": {"$ifNull": ["$closed_total_ms", 0]}}
    )
    return _closing(row) if row else Closing(0, 0)


async def forget(database: Database, bucket: Bucket) -> None:
    """Begin again: what is owed was measured by limits that hold no more. Whoever was told when to go still goes."""
    await _collection(database).delete_one(_key(bucket))


async def forget_models(database: Database, organization_id: str) -> None:
    """Begin again with all models of an organization: they are reached with another key."""
    of_models = {"$gte": f"{organization_id}/model/", "$lt": f"{organization_id}/model0"}
    await _collection(database).delete_many({"_id": of_models, "organization_id": organization_id})


def _closing(row: Row) -> Closing:
    return Closing(row["closed_ms"] / 1000, row["closed_total_ms"] / 1000)


async def _update(database: Database, bucket: Bucket, stages: list[Row]) -> Row:
    """Bring the row to the present, or insert it, then apply `stages`; one atomic update."""
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
        # Another replica was the first to use this bucket, at the same moment; now the row is there.
        return await update()


def _decayed(field: str) -> Row:
    elapsed = {"$max": [0, {"$subtract": ["$$NOW", {"$ifNull": ["$at", "$$NOW"]}]}]}
    return {"$max": [0, {"$subtract": [{"$ifNull": [f"${field}", 0]}, elapsed]}]}


def _key(bucket: Bucket) -> Row:
    return {"_id": bucket.row_id, "organization_id": bucket.organization_id}


def _collection(database: Database) -> Collection:
    # Not the majority: what an election loses is at most a burst.
    return database.get_collection(NAME, write_concern=WriteConcern(1))
