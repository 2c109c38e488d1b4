"""A crawl of a real web server: what it fetches, what it stores, and what it never does."""

from kb_knowledge.sources.guarded_http import USER_AGENT, FetchLimits
from kb_knowledge.store.source_runs import SourceRunStatus
from tests.integration.knowledge.sources.source_runs import Sources
from tests.integration.knowledge.sources.web_site import PAGES, WebSite

SECRET = "-----BEGIN PRIVATE KEY----- MIIEvQIBADANBg"


async def test_each_page_of_a_site_is_fetched_once_and_becomes_an_entry(sources: Sources, site: WebSite) -> None:
    site.pages = PAGES - 1
    source = await sources.crawl(site.url)

    run = await sources.run(source)
    assert (run.status, run.error, run.messages) == (SourceRunStatus.OK, None, ())
    assert run.counts == {"created": PAGES}
    assert set(site.requested().values()) == {1}
    assert {"/robots.txt", "/sitemap.xml", "/", "/page/0", f"/page/{PAGES - 2}"} <= site.requested().keys()
    assert site.agents == {USER_AGENT}
    item = sources.entries.items[f"{site.url}page/7"]
    assert (item.title, item.url) == ("Page 7", f"{site.url}page/7")
    assert item.text == f"# Page 7\n\n{site.text(7)}"
    stored = await sources.source(source)
    assert (stored.last_run_status, stored.last_run_entry_count) == ("ok", PAGES)

    site.log.clear()
    sources.entries.events.clear()
    site.texts[8] = "Something new."
    run = await sources.run(source)
    assert run.counts == {"unchanged": PAGES - 1, "updated": 1}
    assert sources.entries.events == [f"{site.url}page/8"]
    assert set(site.requested().values()) == {1}
    # Those with an ETag were not sent again.
    assert len(site.conditional) == PAGES // 2


async def test_depth_scope_and_robots_txt_limit_what_is_fetched(sources: Sources, site: WebSite) -> None:
    site.home_links = [
        "/private/a",
        "http://127.0.0.2/x",
        "mailto:a@example.com",
        "/trap/image",
        "/trap/login",
        "/nowhere",
    ]
    await sources.run(await sources.crawl(site.url, depth=0))
    assert [*site.requested()] == ["/robots.txt", "/"]

    run = await sources.run(await sources.crawl(site.url, prefixes=["/page/", "/trap", "/private"]))
    assert run.counts == {"created": 21, "skipped": 3}
    assert run.status is SourceRunStatus.OK
    assert f"{site.url}private/a: robots.txt does not allow it" in run.messages
    assert "/private/a" not in site.log
    assert "/nowhere" not in site.log

    site.robots = "User-agent: knowledge-bases-crawler\nDisallow: /"
    run = await sources.run(await sources.crawl(site.url))
    assert run.status is SourceRunStatus.ERROR
    assert "robots.txt" in (run.error or "")


async def test_traps_cost_little_and_the_other_pages_are_read(sources: Sources, site: WebSite) -> None:
    traps = ["huge", "bomb", "deep", "metadata", "loop", "latin", "calendar"]
    site.home_links = [f"/trap/{name}" for name in traps] + ["/moved/3", "/page/3?fbclid=1"]
    run = await sources.run(await sources.crawl(site.url, depth=5))

    assert run.status is SourceRunStatus.PARTIAL
    assert run.counts is not None
    assert run.counts["failed"] == 3
    messages = {message.partition(": ")[0].rpartition("/")[2]: message for message in run.messages}
    assert "more than 1000000 bytes" in messages["huge"]
    assert "more than 1000000 bytes" in messages["bomb"]
    assert "nested" in messages["deep"]
    assert "outside of the source" in messages["metadata"]
    assert sources.entries.items[f"{site.url}trap/latin"].text == "Straße und Öl"
    months = [url for url in sources.entries.items if "calendar" in url]
    # Five links deep, whatever session ids the links have.
    assert len(months) == 1 + 3 * 4
    assert site.requested()["/page/3"] == 1
    assert f"{site.url}page/19" in sources.entries.items


async def test_a_run_ends_at_its_limits_and_keeps_what_came(sources: Sources, site: WebSite) -> None:
    sources.limits = type(sources.limits)(max_s=60, max_bytes=1_000)
    source = await sources.crawl(site.url)
    run = await sources.run(source)
    assert run.status is SourceRunStatus.PARTIAL
    assert "1000 bytes" in (run.error or "")
    assert 0 < len(sources.entries.items) < 20

    sources.limits = type(sources.limits)(max_s=0.2, max_bytes=10**9)
    sources.page_limits = FetchLimits(within_s=600)
    site.home_links = ["/trap/slow"]
    site.texts[8] = "Something new."
    run = await sources.run(source)
    assert run.status is SourceRunStatus.PARTIAL
    assert "time limit" in (run.error or "")


async def test_entries_of_pages_that_vanish_go_unless_they_are_too_many(sources: Sources, site: WebSite) -> None:
    source = await sources.crawl(site.url)
    site.pages = 24
    await sources.run(source)
    site.gone = set(range(12))
    run = await sources.run(source)
    assert (run.removed, run.withheld) == (0, 12)
    assert "30 %" in (run.error or "")
    assert len(sources.entries.items) == 25

    site.gone = {1, 2, 3}
    run = await sources.run(source)
    assert (run.status, run.removed, run.withheld) == (SourceRunStatus.OK, 3, 0)
    assert sorted(sources.entries.deleted) == [f"{site.url}page/{number}" for number in (1, 2, 3)]


async def test_a_run_with_failures_deletes_nothing(sources: Sources, site: WebSite) -> None:
    source = await sources.crawl(site.url)
    await sources.run(source)
    site.gone = {1}
    site.texts[2] = SECRET
    run = await sources.run(source)
    assert (run.status, run.removed) == (SourceRunStatus.PARTIAL, 0)
    [message] = run.messages
    assert "'private-key'" in message
    assert SECRET not in message
    assert sources.entries.items[f"{site.url}page/2"].text.endswith("subject 14.")

    site.status = 500
    run = await sources.run(source)
    assert (run.status, run.removed) == (SourceRunStatus.ERROR, 0)
    assert len(sources.entries.items) == 21


async def test_nothing_is_fetched_from_a_server_whose_robots_txt_fails(sources: Sources, site: WebSite) -> None:
    site.robots_status = 500
    run = await sources.run(await sources.crawl(site.url))
    assert run.status is SourceRunStatus.ERROR
    assert [*site.requested()] == ["/robots.txt"]


async def test_a_first_page_that_leads_out_of_the_source_is_an_error_that_says_what_to_do(
    sources: Sources, site: WebSite
) -> None:
    source = await sources.crawl(f"{site.url}trap/metadata")
    site.pages = 0
    run = await sources.run(source)
    assert (run.status, run.counts) == (SourceRunStatus.ERROR, {"failed": 1})
    assert run.error == (
        "the first page was not read: it redirects to http://169.254.169.254, outside of the source; set the url of "
        "the source to the address that it leads to, or add that to its prefixes"
    )
    assert (await sources.source(source)).last_run_error == run.error

    # What the sitemap names is read all the same.
    site.pages = 4
    run = await sources.run(source)
    assert (run.status, run.counts) == (SourceRunStatus.PARTIAL, {"created": 2, "failed": 1})
    assert "http://169.254.169.254" in (run.error or "")


async def test_a_source_whose_first_page_moved_away_keeps_its_entries(sources: Sources, site: WebSite) -> None:
    site.pages = 4
    source = await sources.crawl(site.url)
    await sources.run(source)
    site.moved_to = "http://127.0.0.2:1/"
    run = await sources.run(source)
    assert (run.status, run.removed, len(sources.entries.items)) == (SourceRunStatus.ERROR, 0, 5)


async def test_a_first_page_that_was_never_there_is_an_error(sources: Sources, site: WebSite) -> None:
    site.pages = 0
    run = await sources.run(await sources.crawl(f"{site.url}nowhere"))
    assert run.status is SourceRunStatus.ERROR
    assert run.error == "the first page was not read: the server answered with 404; check the url of the source"
