"""`python -m kb_knowledge.runner` as it is deployed, two at a time, killed with SIGKILL while it reads a real site."""

import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kb_knowledge.store.source_runs import SourceRun, SourceRunStatus
from kb_local.mongod import Mongod
from kb_local.ports import free_port
from kb_local.service import Service
from kb_local.zygote import Zygote
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.failpoints import OF_SOURCES
from kb_shared.mongo import knowledge_entries, outbox
from tests.conftest import RunningMongo
from tests.integration.knowledge.sources.source_runs import Sources
from tests.integration.knowledge.sources.web_site import WebSite
from tests.waiting import until

pytestmark = pytest.mark.timeout(600)

ONCE_A_RUN = ("source.after_claim", "source.after_removal", "source.before_end", "source.after_end")


@dataclass(frozen=True, slots=True)
class Runners:
    """Runners of the same sources, each in a process of its own."""

    sources: Sources
    mongo_uri: str
    zygote: Zygote
    logs: Path

    @asynccontextmanager
    async def two(self, *, failpoint: str = "") -> AsyncIterator[list[Service]]:
        """Start two at once; both are to die at a failpoint. At the end, both are killed."""
        env = {
            "KB_MONGO_URI": self.mongo_uri,
            "KB_MONGO_DATABASE": self.sources.database.name,
            "KB_ALLOW_PRIVATE_ADDRESSES": "on",
            "KB_CRAWL_DELAY_S": "0",
            "KB_FAILPOINT": failpoint,
        }
        runners = [
            Service(
                f"runner-{n}",
                "kb_knowledge.runner",
                zygote=self.zygote,
                port=free_port(),
                log=self.logs / f"{n}.log",
                env=env,
            )
            for n in range(2)
        ]
        for runner in runners:
            runner.launch()
        try:
            yield runners
        finally:
            await run_all_or_cancel([runner.kill() for runner in runners])

    async def carry_out(self, run: SourceRun) -> SourceRun:
        """Wait until one of two runners has ended a run."""

        async def has_ended() -> bool:
            return (await self.sources.find(run)).finished_at is not None

        async with self.two():
            await until(has_ended, what="the end of the run")
        return await self.sources.find(run)

    async def die_at(self, failpoint: str, run: SourceRun) -> int | None:
        """Wait until a runner has died at a failpoint, and let the lease of its run pass; return its exit status."""
        nth = 1 if failpoint in ONCE_A_RUN else 2
        async with self.two(failpoint=f"{failpoint}:{nth}") as runners:
            await until(lambda: not all(runner.running for runner in runners), what=f"a death at {failpoint}")
            [dead] = [runner for runner in runners if not runner.running]
        await self.sources.let_lease_pass(run)
        return dead.returncode


@pytest.fixture
def runners(sources: Sources, mongod: RunningMongo | Mongod, zygote: Zygote, tmp_path: Path) -> Runners:
    return Runners(sources, mongod.uri, zygote, tmp_path)


async def count_events(sources: Sources) -> Counter[str]:
    """Return the number of document events of each entry, by its id."""
    rows = sources.database[outbox.NAME].find({})
    keys = [row["key"] async for row in rows]
    return Counter(key.partition("/entry-")[2] for key in keys if "/entry-" in key)


async def entries_of(sources: Sources) -> dict[str, tuple[str, str]]:
    """Return id and content of each entry, by the path of its page."""
    rows = await sources.database[knowledge_entries.NAME].find({"organization_id": sources.organization_id}).to_list()
    entries = {row["source_key"]: (row["entry_id"], row["content"]) for row in rows}
    assert len(entries) == len(rows), "an entry is there twice"
    return {key.partition("/page/")[2]: entry for key, entry in entries.items()}


async def test_a_run_that_is_killed_at_every_failpoint_fetches_a_page_once_and_once_more_for_each_kill(
    runners: Runners, sources: Sources, site: WebSite
) -> None:
    source = await sources.crawl(site.url)
    assert (await runners.carry_out(await sources.request(source))).status is SourceRunStatus.OK
    before = await entries_of(sources)
    assert sum(site.requested().values()) == len(site.requested()) == site.pages + 3
    site.log.clear()
    site.texts = {number: f"New text {number}." for number in range(site.pages)}
    site.gone = {1, 2}

    run = await sources.request(source)
    deaths = [(await runners.die_at(failpoint, run)) for failpoint in OF_SOURCES]

    assert deaths == [-signal.SIGKILL] * len(OF_SOURCES)
    ended = await sources.find(run)
    assert (ended.status, ended.error, ended.claims) == (SourceRunStatus.OK, None, len(deaths))
    counts = site.requested()
    assert set(counts) == {"/robots.txt", "/sitemap.xml", "/", *(f"/page/{number}" for number in range(site.pages))}
    assert sum(counts.values()) <= len(counts) + len(deaths)
    # No entry twice, none lost, none left, and one event for each change.
    left = await entries_of(sources)
    numbers = {"0", *(str(number) for number in range(3, site.pages))}
    assert left.keys() == {"", *numbers}
    assert all(left[number] == (before[number][0], f"# Page {number}\n\nNew text {number}.") for number in numbers)
    assert await count_events(sources) == {entry_id: 2 if path else 1 for path, (entry_id, _) in before.items()}
    assert (await sources.source(source)).last_run_entry_count == len(left)


async def test_a_partial_run_that_is_killed_deletes_nothing(runners: Runners, sources: Sources, site: WebSite) -> None:
    site.pages = 4
    source = await sources.crawl(site.url)
    await runners.carry_out(await sources.request(source))
    before = await entries_of(sources)
    site.gone = {1}
    site.home_links = ["/trap/bomb"]

    run = await sources.request(source)
    assert await runners.die_at("source.before_end", run) == -signal.SIGKILL
    ended = await runners.carry_out(run)
    assert (ended.status, ended.counts) == (
        SourceRunStatus.PARTIAL,
        {"unchanged": 4, "failed": 1, "gone": 1},
    )
    assert await entries_of(sources) == before
