"""Announces once a month that an organization has reached a soft limit of its budget.

It reads rows that every charge updates. So a charge does not wait for it, and limits that were reached before a crash
are announced, too.
"""

import asyncio
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_api.source import SOURCE
from kb_contracts.outcomes import BudgetSoftExceeded
from kb_shared.errors import TransientError
from kb_shared.messaging.announcements import Announcement, announce
from kb_shared.metering.budget import RECOUNT_EVERY
from kb_shared.mongo import budgets, spu_ledger
from kb_shared.mongo.budgets import MonthlyBudget, Unit
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.spu_ledger import Spent
from kb_shared.prices import NANO_USD

_INTERVAL_S: Final = 10.0

log = structlog.get_logger()


async def watch_budgets(database: Database, stop: asyncio.Event) -> None:
    """Check the budgets every ten seconds until `stop`. An announcement that fails is made later."""
    while not stop.is_set():
        try:
            await warn_of_soft_limits(database)
        except (PyMongoError, TransientError) as error:
            log.warning("budget_watch.interrupted", error=type(error).__name__)
        try:
            await asyncio.wait_for(stop.wait(), _INTERVAL_S)
        except TimeoutError:
            continue


async def warn_of_soft_limits(database: Database) -> None:
    """Announce each soft limit that is reached according to the ledger and was not announced this month."""
    for organization_id in await budgets.find_to_warn(database):
        await budgets.recount(database, organization_id, at_most_every=RECOUNT_EVERY)
        budget = await budgets.find(database, organization_id)
        if budget is not None:
            spent = await spu_ledger.sum_this_month(database, organization_id)
            for exceeded in _exceeded(organization_id, budget, spent):
                await _announce_once(database, exceeded)


async def _announce_once(database: Database, exceeded: BudgetSoftExceeded) -> None:
    async def store(session: MongoSession) -> bool:
        # In the transaction of the message, so that it is sent once, whatever crashes and whichever replica is first.
        is_news = await budgets.note_warning(
            database, session, exceeded.organization_id, unit=exceeded.unit, month=exceeded.month
        )
        if is_news:
            await announce(database, session, Announcement(exceeded, seq=0), source=SOURCE)
        return is_news

    if await in_transaction(database, store):
        log.warning(
            "budget.soft_exceeded",
            organization_id=exceeded.organization_id,
            unit=exceeded.unit,
            soft=exceeded.soft,
            used=exceeded.used,
        )


def _exceeded(organization_id: str, budget: MonthlyBudget, spent: Spent) -> list[BudgetSoftExceeded]:
    limits = budget.limits
    found: list[tuple[Unit, float, float]] = []
    if limits.soft is not None and spent.spus >= limits.soft:
        found.append(("spu", limits.soft, spent.spus))
    if limits.soft_nano_usd is not None and spent.nano_usd >= limits.soft_nano_usd:
        found.append(("usd", limits.soft_nano_usd / NANO_USD, spent.nano_usd / NANO_USD))
    return [
        BudgetSoftExceeded(organization_id=organization_id, month=budget.month, unit=unit, soft=soft, used=used)
        for unit, soft, used in found
    ]
