"""Sums the charges of an organization by knowledge base, model, operation and day, from the ledger."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final

from kb_contracts.api.usage import Usage, UsageRow
from kb_shared.http.authentication import Caller
from kb_shared.http.problems import invalid_field
from kb_shared.mongo import knowledge_bases, spu_ledger
from kb_shared.mongo.database import Database
from kb_shared.mongo.spu_ledger import Dimension, Spent
from kb_shared.prices import NANO_USD

MAX_RANGE: Final = timedelta(days=366)
MAX_ROWS: Final = 10_000

_Charged = tuple[Mapping[Dimension, str | None], Spent]


async def sum_usage(
    database: Database, caller: Caller, *, since: datetime, until: datetime, by: Sequence[Dimension]
) -> Usage:
    """Return what the KBs that `caller` may see were charged from `since` to `until` (excluded), by some dimensions.

    By day alone, days without charges are rows with 0.

    Raises:
        RequestError: 422 `validation-error` for a range that is too long or ends before it begins, and for too many
            rows.
    """
    if since > until:
        raise invalid_field("from", "must not be later than `to`")
    if until - since > MAX_RANGE:
        raise invalid_field("from", f"must be at most {MAX_RANGE.days} days before `to`")
    charged: Sequence[_Charged] = await spu_ledger.sum_usage(
        database,
        caller.organization_id,
        since=since,
        until=until,
        by=by,
        kb_ids=caller.kb_ids,
        at_most=MAX_ROWS + 1,
    )
    if len(charged) > MAX_ROWS:
        raise invalid_field("group_by", f"has more than {MAX_ROWS:,} rows: give fewer names or a shorter range")
    if list(by) == ["day"]:
        charged = _with_all_days(charged, since=since, until=until)
    names = await _names(database, caller.organization_id, charged)
    nano_usd = sum(spent.nano_usd for _, spent in charged)
    return Usage(
        since=since,
        until=until,
        usage=[_row(values, spent, names) for values, spent in charged],
        total_spus=sum(spent.spus for _, spent in charged),
        total_usd=nano_usd / NANO_USD,
        total_nano_usd=nano_usd,
    )


def _with_all_days(charged: Sequence[_Charged], *, since: datetime, until: datetime) -> list[_Charged]:
    spent = {values["day"]: each for values, each in charged}
    days = [day.isoformat() for day in _days(since, until)]
    return [({"day": day}, spent.get(day, Spent())) for day in days]


def _days(since: datetime, until: datetime) -> list[date]:
    """Return the days, in UTC, that have a moment between `since` and `until` (excluded)."""
    if since == until:
        return []
    count = ((until - timedelta(microseconds=1)).date() - since.date()).days + 1
    return [since.date() + timedelta(days=n) for n in range(count)]


async def _names(database: Database, organization_id: str, charged: Sequence[_Charged]) -> dict[str, str]:
    kb_ids = {kb_id for values, _ in charged if (kb_id := values.get("kb")) is not None}
    return await knowledge_bases.find_names(database, organization_id, kb_ids=kb_ids) if kb_ids else {}


def _row(values: Mapping[Dimension, str | None], spent: Spent, names: Mapping[str, str]) -> UsageRow:
    fields: dict[str, Any] = {("kb_id" if name == "kb" else name): value for name, value in values.items()}
    if "kb" in values:
        fields["kb_name"] = names.get(values["kb"] or "")
    money = {"usd": spent.nano_usd / NANO_USD, "nano_usd": spent.nano_usd}
    return UsageRow.model_validate({**fields, "spus": spent.spus, **money})
