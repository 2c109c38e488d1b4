"""`budgets`: spending limits of organizations per calendar month (UTC, server's clock), and reservations.

SPUs and money have separate limits; money is counted in whole nano-dollars. An organization has one row, so a
reservation is one atomic write: it is granted if used and reserved amounts stay within both hard limits. A reservation
that is not settled expires and counts as spent. `used` is an estimate that may be too high, never too low; `recount`
sets it from the ledger, which is authoritative. Nothing is counted for an organization without limits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias
from uuid import uuid4

from pymongo import ReturnDocument

from kb_shared.mongo import spu_ledger
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.rows import RowMapper

NAME = "budgets"

_MONTH: Final = {"$dateToString": {"format": "%Y-%m", "date": "$$NOW"}}
_LIMITS: Final = ("soft", "hard", "soft_nano_usd", "hard_nano_usd")
_HAS_A_LIMIT: Final = {"$or": [{name: {"$ne": None}} for name in _LIMITS]}


Unit: TypeAlias = Literal["spu", "usd"]


@dataclass(frozen=True, slots=True)
class _Fields:
    """Field names of one unit in a row."""

    soft: str
    used: str
    warned_month: str
    """Field with the month of the last warning. The stored names keep an older word for it."""


_UNITS: Final[Mapping[Unit, _Fields]] = {
    "spu": _Fields("soft", "used", "told"),
    "usd": _Fields("soft_nano_usd", "used_nano_usd", "told_usd"),
}
_STALE_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """For a calendar month, in SPUs and in nano-dollars; None is no limit."""

    soft: int | None = None
    hard: int | None = None
    soft_nano_usd: int | None = None
    hard_nano_usd: int | None = None

    @property
    def in_usd(self) -> bool:
        """Return whether money is limited, so that everything needs a known price."""
        return self.soft_nano_usd is not None or self.hard_nano_usd is not None


@dataclass(frozen=True, slots=True)
class MonthlyBudget:
    limits: BudgetLimits
    used: int
    """Number of SPUs, as far as the row knows."""
    reserved: int
    used_nano_usd: int
    reserved_nano_usd: int
    month: str
    """Month, such as `2026-01`."""


@dataclass(frozen=True, slots=True)
class _OpenReservation:
    """Reservation in a row."""

    id: str
    count: int
    nano_usd: int = 0


@dataclass(frozen=True, slots=True)
class _BudgetRow:
    """Row of a budget, except its limits."""

    month: str
    used: int
    used_nano_usd: int = 0
    reservations: tuple[_OpenReservation, ...] = ()


_RESERVATIONS: Final = RowMapper(_OpenReservation)


def _reservations(stored: Iterable[Row]) -> tuple[_OpenReservation, ...]:
    return tuple(map(_RESERVATIONS.read, stored))


_ROWS: Final = RowMapper(_BudgetRow, convert={"reservations": _reservations})
_BUDGET_LIMITS: Final = RowMapper(BudgetLimits)


@dataclass(frozen=True, slots=True)
class BudgetReservation:
    """Reserved amount. The code that reserved it settles it."""

    organization_id: str
    reservation_id: str | None
    """Id of the reservation; None if the organization has no limit, and nothing is stored."""
    count: int
    """Number of SPUs."""
    nano_usd: int = 0


async def set_limits(database: Database, organization_id: str, limits: BudgetLimits) -> None:
    """Set all limits. Earlier charges of this month count, too."""
    used = await spu_ledger.sum_this_month(database, organization_id)
    # Without a limit nothing has been counted.
    begins = _all_null(*_LIMITS)
    money_begins = _all_null("soft_nano_usd", "hard_nano_usd")
    fields: Row = {
        "soft": limits.soft,
        "hard": limits.hard,
        "soft_nano_usd": limits.soft_nano_usd,
        "hard_nano_usd": limits.hard_nano_usd,
        "used": {"$cond": [begins, used.spus, "$used"]},
        "used_nano_usd": {"$cond": [money_begins, used.nano_usd, "$used_nano_usd"]},
        "recounted_at": {"$ifNull": ["$recounted_at", "$$NOW"]},
    }
    row = {"organization_id": {"$literal": organization_id}, "reservations": {"$ifNull": ["$reservations", []]}}
    # First the current month: the amount from the ledger must not count for an earlier month.
    update = [{"$set": row}, *_tidy(), {"$set": fields}]
    await database[NAME].update_one(_key(organization_id), update, upsert=True)


async def find(database: Database, organization_id: str) -> MonthlyBudget | None:
    row = await database[NAME].find_one_and_update(_key(organization_id), _tidy(), return_document=ReturnDocument.AFTER)
    return _from_row(row) if row else None


async def find_limits(database: Database, organization_id: str) -> BudgetLimits:
    """Return the limits of an organization, all of them None where it has no budget. Changes nothing."""
    row = await database[NAME].find_one(_key(organization_id), list(_LIMITS))
    return _BUDGET_LIMITS.read(row) if row else BudgetLimits()


async def reserve(
    database: Database, organization_id: str, count: int, *, nano_usd: int, lifetime: timedelta
) -> BudgetReservation | MonthlyBudget:
    """Reserve `count` SPUs and `nano_usd`, all or nothing. A reservation not settled in `lifetime` counts as spent.

    Returns:
        The reservation, or the budget if it has not enough left.
    """
    reservation = BudgetReservation(organization_id, uuid4().hex, count, nano_usd)
    entry = {
        "id": reservation.reservation_id,
        "count": count,
        "nano_usd": nano_usd,
        "until": {"$add": ["$$NOW", int(lifetime.total_seconds() * 1000)]},
    }
    fits = {
        "$and": [
            *_fits(count, used="used", reserved="count", hard="hard"),
            *_fits(nano_usd, used="used_nano_usd", reserved="nano_usd", hard="hard_nano_usd"),
        ]
    }
    with_it = {"$concatArrays": ["$reservations", [entry]]}
    row = await database[NAME].find_one_and_update(
        {**_key(organization_id), **_HAS_A_LIMIT},
        [
            *_tidy(),
            {"$set": {"reservations": {"$cond": [fits, with_it, "$reservations"]}}},
        ],
        return_document=ReturnDocument.AFTER,
    )
    if row is None:
        return BudgetReservation(organization_id, None, count, nano_usd)
    if any(each.id == reservation.reservation_id for each in _ROWS.read(row).reservations):
        return reservation
    return _from_row(row)


async def settle_reservation(
    database: Database, reservation: BudgetReservation, *, used: int, used_nano_usd: int = 0
) -> None:
    """Replace a reservation by the amount that was spent. Does nothing if it is settled or has expired."""
    if reservation.reservation_id is None:
        return
    of_it = {"$eq": ["$$each.id", reservation.reservation_id]}
    others = {"$filter": {"input": "$reservations", "as": "each", "cond": {"$not": [of_it]}}}
    await database[NAME].update_one(
        {**_key(reservation.organization_id), "reservations.id": reservation.reservation_id},
        [
            # First, so that it does not lapse in the same update.
            {"$set": {"reservations": others}},
            *_tidy(),
            {
                "$set": {
                    "used": {"$add": ["$used", used]},
                    "used_nano_usd": {"$add": ["$used_nano_usd", used_nano_usd]},
                }
            },
        ],
    )


async def recount(database: Database, organization_id: str, *, at_most_every: timedelta) -> bool:
    """Set `used` from the ledger, with what open reservations have spent; False if that was done recently.

    An amount that is settled between the read of the ledger and the write is counted twice: `used` is never too low.
    """
    lately = {"$subtract": ["$$NOW", int(at_most_every.total_seconds() * 1000)]}
    row = await database[NAME].find_one_and_update(
        {**_key(organization_id), "$expr": {"$lte": ["$recounted_at", lately]}},
        [*_tidy(), {"$set": {"recounted_at": "$$NOW"}}],
        return_document=ReturnDocument.AFTER,
    )
    if row is None:
        return False
    spent = await spu_ledger.sum_this_month(database, organization_id)
    before = _ROWS.read(row)
    more = {"used": spent.spus - before.used, "used_nano_usd": spent.nano_usd - before.used_nano_usd}
    # Not if another recount began meanwhile, or the month ended.
    unchanged = {"recounted_at": row["recounted_at"], "month": before.month}
    written = await database[NAME].update_one(
        {**_key(organization_id), **unchanged},
        [{"$set": {name: {"$add": [f"${name}", difference]} for name, difference in more.items()}}],
    )
    return written.matched_count == 1


async def find_differing(database: Database) -> list[str]:
    """Return the organizations whose `used` of this month differs from the ledger, and that have nothing reserved."""
    rows = database[NAME].find({"$expr": {"$eq": ["$month", _MONTH]}, "reservations": [], **_HAS_A_LIMIT})
    differing = []
    async for row in rows:
        organization_id = row["organization_id"]
        stored = _ROWS.read(row)
        spent = await spu_ledger.sum_this_month(database, organization_id)
        if (stored.used, stored.used_nano_usd) != (spent.spus, spent.nano_usd):
            differing.append(organization_id)
    return differing


async def find_to_warn(database: Database) -> list[str]:
    """Return the organizations that may have reached a soft limit without a warning this month.

    This includes organizations with a soft limit that were not recounted for an hour: a crash, or an older version of
    the service, may have left `used` too low. The caller checks the ledger.
    """
    stale = {"$lte": ["$recounted_at", {"$subtract": ["$$NOW", _STALE_MS]}]}
    seems = [
        {
            "$and": [
                {"$ne": [{"$ifNull": [f"${unit.soft}", None]}, None]},
                {"$ne": [f"${unit.warned_month}", _MONTH]},
                {"$or": [stale, {"$and": [{"$eq": ["$month", _MONTH]}, {"$gte": [f"${unit.used}", f"${unit.soft}"]}]}]},
            ]
        }
        for unit in _UNITS.values()
    ]
    rows = database[NAME].find({"$expr": {"$or": seems}}, ["organization_id"])
    return [row["organization_id"] async for row in rows]


async def note_warning(
    database: Database, session: MongoSession, organization_id: str, *, unit: Unit, month: str
) -> bool:
    """Note the warning of this month; False if it, or one for a later month, was noted before."""
    warned_month = _UNITS[unit].warned_month
    written = await database[NAME].update_one(
        {**_key(organization_id), warned_month: {"$not": {"$gte": month}}},
        {"$set": {warned_month: month}},
        session=session,
    )
    return written.modified_count == 1


def _fits(amount: int, *, used: str, reserved: str, hard: str) -> list[Row]:
    """Build the condition that `amount` fits into the budget; an amount of 0 always does."""
    if not amount:
        return []
    total = {"$add": [f"${used}", {"$sum": f"$reservations.{reserved}"}, amount]}
    return [{"$or": [{"$eq": [{"$ifNull": [f"${hard}", None]}, None]}, {"$lte": [total, f"${hard}"]}]}]


def _tidy() -> list[Row]:
    """Build stages that begin a new month if necessary, and count expired reservations as spent."""
    lapsed = {"$lte": ["$$each.until", "$$NOW"]}
    return [
        {
            "$set": {
                "used": _with_lapsed("used", "count", lapsed),
                "used_nano_usd": _with_lapsed("used_nano_usd", "nano_usd", lapsed),
                "month": _MONTH,
                "reservations": _those({"$not": [lapsed]}),
            }
        }
    ]


def _with_lapsed(used: str, reserved: str, lapsed: dict[str, Any]) -> Row:
    # Rows of an older version have no amounts of money.
    so_far = {"$cond": [{"$eq": ["$month", _MONTH]}, {"$ifNull": [f"${used}", 0]}, 0]}
    amount = {"$ifNull": [f"$$each.{reserved}", 0]}
    return {"$add": [so_far, {"$sum": {"$map": {"input": _those(lapsed), "as": "each", "in": amount}}}]}


def _those(condition: dict[str, Any]) -> dict[str, Any]:
    return {"$filter": {"input": "$reservations", "as": "each", "cond": condition}}


def _all_null(*names: str) -> Row:
    return {"$and": [{"$eq": [{"$ifNull": [f"${name}", None]}, None]} for name in names]}


def _key(organization_id: str) -> Row:
    return {"_id": organization_id, "organization_id": organization_id}


def _from_row(row: Row) -> MonthlyBudget:
    spending = _ROWS.read(row)
    return MonthlyBudget(
        limits=_BUDGET_LIMITS.read(row),
        used=spending.used,
        reserved=sum(each.count for each in spending.reservations),
        used_nano_usd=spending.used_nano_usd,
        reserved_nano_usd=sum(each.nano_usd for each in spending.reservations),
        month=spending.month,
    )
