"""An entry goes when its page says that it is gone, and for no other reason."""

from functools import partial

import pytest

from kb_knowledge.store.knowledge_sources import KnowledgeSource
from kb_knowledge.store.source_runs import SourceRun, SourceRunStatus
from kb_shared import failpoints
from tests.integration.knowledge.sources.small_site import SentPage, SmallSite, moved, page
from tests.integration.knowledge.sources.source_runs import Killed, Sources

PATHS = ("", "oak", "elm", "fir")
LOGIN = page("Members", "Sign in to go on.\nForgot your password?").body
SHELL = '<!doctype html><html><head><title>Trees</title></head><body><div id="app"></div><script src="/a.js"></script>'
CHALLENGE = (
    "<title>Just a moment...</title><script>x()</script><h1>trees.test</h1><p>Verifying you are human. Ray ID: {}</p>"
)


def forest() -> dict[str, SentPage]:
    trees = {
        f"/{name}": page(name.title(), f"The {name} is {20 + 7 * n} metres high.")
        for n, name in enumerate(PATHS[1:], start=1)
    }
    return {"/": page("Trees", "Which trees we have.", *trees), **trees}


async def crawled(sources: Sources, small_site: SmallSite) -> KnowledgeSource:
    small_site.pages = forest()
    source = await sources.crawl(small_site.url)
    assert (await sources.run(source)).counts == {"created": 4}
    return source


def texts(sources: Sources, site: SmallSite) -> dict[str, str]:
    return {key.removeprefix(site.url): item.text for key, item in sources.entries.items.items()}


def assert_kept(run: SourceRun, before: dict[str, str], sources: Sources, site: SmallSite) -> None:
    assert run.status in (SourceRunStatus.PARTIAL, SourceRunStatus.ERROR)
    assert run.error
    assert run.removed == 0
    assert texts(sources, site) == before


async def test_a_page_that_no_link_names_any_more_is_asked_for_itself(sources: Sources, small_site: SmallSite) -> None:
    source = await crawled(sources, small_site)
    small_site.pages["/"] = page("Trees", "Which trees we have.", "/fir")
    small_site.pages["/elm"] = page("Elm", "The elm was felled.")
    del small_site.pages["/oak"]
    small_site.log.clear()

    run = await sources.run(source)
    assert (run.status, run.counts, run.removed) == (
        SourceRunStatus.OK, {"updated": 1, "unchanged": 2, "gone": 1}, 1,
    )  # fmt: skip
    assert small_site.log.count("/oak") == small_site.log.count("/elm") == 1
    assert texts(sources, small_site).keys() == {"", "elm", "fir"}
    assert texts(sources, small_site)["elm"] == "# Elm\n\nThe elm was felled."


LEFT_OUT = {"X-Robots-Tag": "none", "Location": "/login"}
NOINDEX = "<meta name=robots content=noindex>"


in_long_runs = partial(pytest.param, marks=pytest.mark.long)
"""Case that only the long tests try."""


@pytest.mark.parametrize(
    "instead",
    [
        {"/oak": SentPage(NOINDEX + CHALLENGE.format("8f3a71"))},
        {"/oak": SentPage(NOINDEX + "<title>Log in</title><h1>Log in</h1><input type=password>")},
        in_long_runs({"/oak": page("Down", "The site is down for maintenance.", head=NOINDEX)}),
        in_long_runs({"/oak": SentPage(status=503, headers={"X-Robots-Tag": "noindex"})}),
        {"/oak": SentPage(status=403, headers={"X-Robots-Tag": "noindex"})},
        {"/oak": SentPage(status=302, headers=LEFT_OUT), "/login": SentPage(LOGIN)},
        {path: SentPage(SHELL) for path in forest()},
        in_long_runs({path: SentPage(SHELL) for path in forest() if path != "/"}),
        {path: SentPage(LOGIN) for path in forest()},
        in_long_runs({path: SentPage(LOGIN) for path in ("/oak", "/elm")}),
        {path: SentPage(CHALLENGE.format(f"8f3a{n}c71d{n}09")) for n, path in enumerate(forest())},
        {path: page("Trees", "We are repairing something. Come again tomorrow, please.") for path in forest()},
        in_long_runs({path: SentPage(f"<title>{path}</title><p>Sorry, not found (404)") for path in ("/oak", "/elm")}),
        {"/oak": page("Sorry", "The page was not found.")},
        in_long_runs({"/oak": page("Down", "The site is down for maintenance.")}),
        {"/oak": SentPage('<title>Log in</title><form><input name=u><input type="password"></form><p>Log in first.')},
        {path: moved("/login") for path in forest()} | {"/login": SentPage(LOGIN)},
        in_long_runs({path: moved("/login") for path in ("/oak", "/elm")} | {"/login": SentPage(LOGIN)}),
        in_long_runs({"/oak": moved("/", 301)}),
        {"/oak": moved("http://127.0.0.9:1/oak", 301)},
        in_long_runs({"/oak": moved("/oak")}),
        {"/oak": moved("/elm"), "/elm": moved("/oak")},
        {"/oak": SentPage(b"\x89PNG\r\n", headers={"Content-Type": "image/png"})},
        in_long_runs({"/oak": SentPage('<img src="oak.png">')}),
        in_long_runs({"/oak": SentPage(status=403)}),
        {path: SentPage(status=404) for path in forest()},
    ],
)  # fmt: skip
async def test_entries_stay_as_they_were_while_something_else_answers_for_their_pages(
    sources: Sources, small_site: SmallSite, instead: dict[str, SentPage]
) -> None:
    source = await crawled(sources, small_site)
    before = texts(sources, small_site)
    small_site.pages = forest() | instead
    for _ in range(2):
        run = await sources.run(source)
        after = texts(sources, small_site)
        after.pop("login", None)
        assert after == before
        assert run.status in (SourceRunStatus.PARTIAL, SourceRunStatus.ERROR)
        assert run.error
        assert run.removed == 0

    small_site.pages = forest()
    run = await sources.run(source)
    assert run.status is SourceRunStatus.OK
    assert texts(sources, small_site).items() >= before.items()


@pytest.mark.parametrize(
    "out",
    [
        page("Oak", "The oak.", head='<meta name="robots" content="noindex">'),
        page("Oak", "The oak.", head='<meta name="knowledge-bases-crawler" content="none">'),
        SentPage("The oak.", headers={"Content-Type": "text/plain", "X-Robots-Tag": "noindex"}),
        SentPage(status=410),
        SentPage(status=404),
    ],
)
async def test_entries_go_whose_pages_ask_for_it(sources: Sources, small_site: SmallSite, out: SentPage) -> None:
    source = await crawled(sources, small_site)
    small_site.pages["/oak"] = out
    run = await sources.run(source)
    assert (run.status, run.removed) == (SourceRunStatus.OK, 1)
    assert "oak" not in texts(sources, small_site)


async def test_the_entry_of_a_page_that_moved_with_its_text_is_the_one_of_its_new_address(
    sources: Sources, small_site: SmallSite
) -> None:
    source = await crawled(sources, small_site)
    small_site.pages |= {"/trees/oak": small_site.pages["/oak"], "/oak": moved("/trees/oak", 301)}
    run = await sources.run(source)
    assert (run.status, run.removed) == (SourceRunStatus.OK, 1)
    assert texts(sources, small_site).keys() == {"", "elm", "fir", "trees/oak"}


async def test_a_page_whose_entry_was_deleted_by_hand_is_no_longer_missed(
    sources: Sources, small_site: SmallSite
) -> None:
    source = await crawled(sources, small_site)
    small_site.pages |= {"/oak": page("Sorry", "The page was not found."), "/elm": moved("/fir")}
    assert (await sources.run(source)).status is SourceRunStatus.PARTIAL
    for name in ("oak", "elm"):
        await sources.entries.delete(sources.entries.entry_id_of(f"{small_site.url}{name}"))
    for _ in range(2):
        run = await sources.run(source)
        assert (run.status, run.error) == (SourceRunStatus.OK, None)


async def test_pages_that_change_together_and_were_equal_before_are_updated(
    sources: Sources, small_site: SmallSite
) -> None:
    source = await crawled(sources, small_site)
    small_site.pages |= {path: page("Oak", "Equal.") for path in ("/oak", "/copy")}
    small_site.pages["/"] = page("Trees", "Which trees we have.", "/oak", "/copy", "/elm", "/fir")
    assert (await sources.run(source)).status is SourceRunStatus.OK
    small_site.pages |= {path: page("Oak", "Equal again.") for path in ("/oak", "/copy")}
    run = await sources.run(source)
    assert (run.status, run.counts) == (SourceRunStatus.OK, {"unchanged": 3, "updated": 2})


async def test_a_run_that_is_killed_while_it_decides_about_one_text_for_many_pages_overwrites_none(
    sources: Sources, small_site: SmallSite
) -> None:
    source = await crawled(sources, small_site)
    before = texts(sources, small_site)
    small_site.pages |= {path: page("Hello", "We will be with you soon.") for path in ("/oak", "/elm", "/fir")}
    run = await sources.request(source)

    async def die() -> None:
        raise Killed

    for _ in range(2):
        with pytest.raises(Killed):
            async with failpoints.during("source.after_settling", die):
                await sources.carry_out(run)
        await sources.let_lease_pass(run)
    ended = await sources.carry_out(run)
    assert_kept(ended, before, sources, small_site)
    assert (ended.counts or {})["failed"] == 3
    assert "have the same text now" in (ended.error or "")


async def test_pages_behind_many_links_are_all_read(sources: Sources, small_site: SmallSite) -> None:
    paths = [f"/{number}" for number in range(1, 90)]
    small_site.pages = {path: page(f"Page {path}", f"Text {path}.", "/", *paths[:75]) for path in paths}
    small_site.pages["/"] = page("All", "All of them.", *paths[:75])
    small_site.pages["/75"] = page("Page /75", "Text.", *paths)
    run = await sources.run(await sources.crawl(small_site.url, depth=3))
    assert (run.status, run.counts) == (SourceRunStatus.OK, {"created": 90})
