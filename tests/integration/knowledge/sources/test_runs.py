"""Runs from the request to the end: two runners, schedules, cancellation, previews."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from kb_knowledge.runner.hold_run import LEASE
from kb_knowledge.runner.schedule_runs import request_due_runs
from kb_knowledge.store import crawl_frontier, knowledge_sources, source_items, source_runs
from kb_knowledge.store.source_runs import RunTrigger, SourceIsRunning, SourceRunStatus
from kb_shared import failpoints
from tests.integration.knowledge.sources.source_runs import Sources
from tests.integration.knowledge.sources.web_site import WebSite
from tests.waiting import until

NOON = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)


async def test_two_runners_never_read_a_source_at_the_same_time(sources: Sources, site: WebSite) -> None:
    source = await sources.crawl(site.url)
    run = await sources.request(source)
    claims = [await source_runs.claim(sources.database, owner=uuid4().hex, lease=LEASE) for _ in range(3)]
    assert [claim.run_id if claim else None for claim in claims] == [run.run_id, None, None]
    with pytest.raises(SourceIsRunning):
        await sources.request(source)


async def test_a_runner_without_its_lease_stops_and_the_other_ends_the_run(sources: Sources, site: WebSite) -> None:
    site.hold = asyncio.Event()
    run = await sources.request(await sources.crawl(site.url))
    first = asyncio.create_task(sources.carry_out(run))
    await until(lambda: len(site.log) >= 4)
    second = None
    while second is None:
        # The first runner may renew its lease before the second one claims the run.
        await sources.let_lease_pass(run)
        second = await source_runs.claim(sources.database, owner="other", lease=LEASE)
    assert (await first).status is SourceRunStatus.RUNNING

    site.hold.set()
    await sources.runner("other").run(second)
    assert (await sources.find(run)).counts == {"created": 21}
    assert max(site.requested().values()) <= 2


async def test_a_cancelled_run_ends_although_its_server_does_not_answer_and_keeps_what_came(
    sources: Sources, site: WebSite
) -> None:
    source = await sources.crawl(site.url)
    run = await sources.request(source)
    async with failpoints.during("source.after_finish", HoldAfter(site, pages=5)):
        running = asyncio.create_task(sources.carry_out(run))
        await until(lambda: site.hold is not None)
        assert await source_runs.request_cancel(sources.database, run.key)
        # The server holds its answer back until the run has ended.
        ended = await running
        assert site.hold is not None
        assert not site.hold.is_set()
    assert (ended.status, ended.cancelled) == (SourceRunStatus.PARTIAL, True)
    assert "cancelled" in (ended.error or "")
    assert sources.entries.items
    assert not await source_runs.request_cancel(sources.database, run.key)


class HoldAfter:
    """Lets the site answer no further page after some."""

    def __init__(self, site: WebSite, pages: int) -> None:
        self._site = site
        self._left = pages

    async def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._site.hold = asyncio.Event()


async def test_a_preview_stores_nothing(sources: Sources, site: WebSite) -> None:
    source = await sources.crawl(site.url)
    preview = await sources.run(source, RunTrigger.PREVIEW)
    assert len(preview.preview) == 10
    assert preview.preview[0]["title"] == "Home"
    assert sources.entries.events == []
    for name in (crawl_frontier.NAME, source_items.NAME):
        assert await sources.database[name].count_documents({"organization_id": sources.organization_id}) == 0
    assert await sources.source(source) == source


async def test_a_missed_tick_runs_once(sources: Sources, site: WebSite) -> None:
    due = NOON - timedelta(days=3)
    source = await sources.crawl(site.url)
    row = {"cron_expression": "0 * * * *", "next_run_at": due}
    await sources.database[knowledge_sources.NAME].update_one(source.key.to_query(), {"$set": row})
    assert await request_due_runs(sources.database, now=due - timedelta(seconds=1)) == 0
    assert await request_due_runs(sources.database, now=NOON) == 1
    assert await request_due_runs(sources.database, now=NOON) == 0
    later = await sources.source(source)
    assert later.next_run_at is not None
    assert NOON < later.next_run_at < NOON + timedelta(hours=2)
    # While a run has not ended, its source is not due a second time.
    assert await request_due_runs(sources.database, now=NOON + timedelta(days=1)) == 0
    runs, total = await source_runs.find_page(sources.database, source.key, skip=0, limit=10)
    assert (total, runs[0].trigger) == (1, RunTrigger.SCHEDULE)


async def test_a_disabled_source_and_one_without_a_schedule_do_not_run(sources: Sources, site: WebSite) -> None:
    source = await sources.crawl(site.url)
    row = {"enabled": False, "cron_expression": "0 * * * *", "next_run_at": NOON}
    await sources.database[knowledge_sources.NAME].update_one(source.key.to_query(), {"$set": row})
    await sources.crawl(site.url)
    assert await request_due_runs(sources.database, now=NOON + timedelta(days=9)) == 0
