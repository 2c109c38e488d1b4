"""`budgets`: what an organization may spend in a calendar month (UTC, by the server's clock), and what is reserved.

One row an organization, so that a reservation is one atomic write: granted if what is used and what is reserved leave
room for it below the hard limit. A reservation that is never settled lapses, and counts as spent. `used` is an estimate
that errs on the safe side; `recount` sets it by the ledger, which is the truth.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

from pymongo import ReturnDocument

from kb_shared.mongo import spu_ledger
from kb_shared.mongo.database import Database, Row

NAME = "budgets"

_MONTH: Final = {"$dateToString": {"format": "%Y-%m", "date": "$$NOW"}}


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits in SPUs a month; None is no limit."""

    soft: int | None
    hard: int | None
    used: int
    """As far as the row knows."""
    reserved: int
    month: str
    """Such as `2026-01`."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """What may be spent. Whoever made it settles it."""

    organization_id: str
    reservation_id: str | None
    """None: the organization has no hard limit, and nothing is written down."""
    count: int


async def set_limits(database: Database, organization_id: str, *, soft: int | None, hard: int | None) -> None:
    """Set both limits. What a month has cost before it had a budget counts, too."""
    used = await _spent_this_month(database, organization_id)
    # Without a hard limit nothing has been counted.
    begins = {"$eq": [{"$ifNull": ["$hard", None]}, None]}
    fields: Row = {
        "organization_id": {"$literal": organization_id},
        "soft": soft,
        "hard": hard,
        "month": {"$cond": [begins, _MONTH, "$month"]},
        "used": {"$cond": [begins, used, "$used"]},
        "reservations": {"$ifNull": ["$reservations", []]},
        "recounted_at": {"$ifNull": ["$recounted_at", "$$NOW"]},
    }
    await database[NAME].update_one(_key(organization_id), [{"$set": fields}], upsert=True)


async def find(database: Database, organization_id: str) -> Budget | None:
    row = await database[NAME].find_one_and_update(_key(organization_id), _tidy(), return_document=ReturnDocument.AFTER)
    return _from_row(row) if row else None


async def reserve(database: Database, organization_id: str, count: int, *, lifetime: timedelta) -> Reservation | Budget:
    """Reserve `count` SPUs, all or none; what is not settled within `lifetime` counts as spent.

    Returns:
        The budget as it is if it has no room for them.
    """
    reservation = Reservation(organization_id, uuid4().hex, count)
    entry = {
        "id": reservation.reservation_id,
        "count": count,
        "until": {"$add": ["$$NOW", int(lifetime.total_seconds() * 1000)]},
    }
    fits = {"$lte": [{"$add": ["$used", {"$sum": "$reservations.count"}, count]}, "$hard"]}
    with_it = {"$concatArrays": ["$reservations", [entry]]}
    row = await database[NAME].find_one_and_update(
        {**_key(organization_id), "hard": {"$ne": None}},
        [
            *_tidy(),
            {"$set": {"reservations": {"$cond": [fits, with_it, "$reservations"]}}},
        ],
        return_document=ReturnDocument.AFTER,
    )
    if row is None:
        return Reservation(organization_id, None, count)
    if any(each["id"] == reservation.reservation_id for each in row["reservations"]):
        return reservation
    return _from_row(row)


async def settle(database: Database, reservation: Reservation, *, used: int) -> None:
    """Give back what of a reservation was not spent. Once: of one that is settled or has lapsed nothing is changed."""
    if reservation.reservation_id is None:
        return
    of_it = {"$eq": ["$$each.id", reservation.reservation_id]}
    others = {"$filter": {"input": "$reservations", "as": "each", "cond": {"$not": [of_it]}}}
    await database[NAME].update_one(
        {**_key(reservation.organization_id), "reservations.id": reservation.reservation_id},
        [
            # First, so that it does not lapse in the same breath.
            {"$set": {"reservations": others, "settled": used}},
            *_tidy(),
            {"$set": {"used": {"$add": ["$used", "$settled"]}}},
            {"$unset": "settled"},
        ],
    )


async def recount(database: Database, organization_id: str, *, at_most_every: timedelta) -> bool:
    """Set `used` by the ledger, what live reservations have spent of theirs included; False if that was done lately.

    What is settled between reading the ledger and writing stays counted: the estimate errs on the safe side.
    """
    lately = {"$subtract": ["$$NOW", int(at_most_every.total_seconds() * 1000)]}
    row = await database[NAME].find_one_and_update(
        {**_key(organization_id), "$expr": {"$lte": ["$recounted_at", lately]}},
        [*_tidy(), {"$set": {"recounted_at": "$$NOW"}}],
        return_document=ReturnDocument.AFTER,
    )
    if row is None:
        return False
    difference = await _spent_this_month(database, organization_id) - row["used"]
    # Not if this was so slow that another recounts, or that the month is over.
    unchanged = {"recounted_at": row["recounted_at"], "month": row["month"]}
    written = await database[NAME].update_one(
        {**_key(organization_id), **unchanged}, [{"$set": {"used": {"$add": ["$used", difference]}}}]
    )
    return written.matched_count == 1


async def _spent_this_month(database: Database, organization_id: str) -> int:
    return await spu_ledger.total(database, organization_id, this_month=True)


def _tidy() -> list[Row]:
    """Begin the month that it is, and count reservations that have lapsed as spent."""
    lapsed = {"$lte": ["$$each.until", "$$NOW"]}
    return [
        {
            "$set": {
                "used": {
                    "$add": [
                        {"$cond": [{"$eq": ["$month", _MONTH]}, "$used", 0]},
                        {"$sum": {"$map": {"input": _those(lapsed), "as": "each", "in": "$$each.count"}}},
                    ]
                },
                "month": _MONTH,
                "reservations": _those({"$not": [lapsed]}),
            }
        }
    ]


def _those(condition: dict[str, Any]) -> dict[str, Any]:
    return {"$filter": {"input": "$reservations", "as": "each", "cond": condition}}


def _key(organization_id: str) -> Row:
    return {"_id": organization_id, "organization_id": organization_id}


def _from_row(row: Row) -> Budget:
    return Budget(
        soft=row["soft"],
        hard=row["hard"],
        used=row["used"],
        reserved=sum(each["count"] for each in row["reservations"]),
        month=row["month"],
    )
