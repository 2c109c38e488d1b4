"""Items that are longer than an entry may be."""

import pytest

from kb_knowledge.store.source_runs import SourceRunStatus
from kb_shared import failpoints
from tests.integration.knowledge.sources.small_site import SentPage, SmallSite
from tests.integration.knowledge.sources.source_runs import Killed, Sources
from tests.integration.knowledge.sources.test_file_source import upload

SECRET = "-----BEGIN PRIVATE KEY----- MIIEvQIBADANBg"


def rules(count: int = 700, *, changed: int | None = None, text: str = "It was changed.") -> SentPage:
    """Return a page of about 600 characters for each rule."""
    sections = (
        f"<h2>Rule {n}</h2><p>Rule {n} says: {f'a boat of class {n % 17} gives way. ' * 17}"
        f"{text if n == changed else ''}</p>"
        for n in range(count)
    )
    return SentPage(
        f"<!doctype html><title>Rules of the lake</title><body><main><h1>Rules</h1>{''.join(sections)}</main>"
    )


async def test_a_long_page_is_several_entries_of_which_only_the_changed_one_is_stored_again(
    sources: Sources, small_site: SmallSite
) -> None:
    small_site.pages = {"/": rules()}
    source = await sources.crawl(small_site.url, depth=0)
    run = await sources.run(source)
    items = sources.entries.items
    assert (run.status, run.counts) == (SourceRunStatus.OK, {"created": 1})
    assert len(items) > 2
    assert (await sources.source(source)).last_run_entry_count == len(items)
    assert all(
        len(item.text) <= 200_000 and item.title.startswith("Rules of the lake (part") for item in items.values()
    )
    assert all(any(f"## Rule {n}\n" in item.text for item in items.values()) for n in range(700))
    assert {item.url for item in items.values()} == {small_site.url}

    before = dict(items)
    sources.entries.events.clear()
    small_site.pages = {"/": rules(changed=333)}
    assert (await sources.run(source)).counts == {"updated": 1}
    [changed] = sources.entries.events
    assert "It was changed." in items[changed].text
    assert before.keys() == items.keys()

    sources.entries.events.clear()
    small_site.pages = {"/": rules(600, changed=333)}
    await sources.run(source)
    assert not any("Rule 650" in item.text for item in items.values())
    assert any("Rule 599" in item.text for item in items.values())

    small_site.pages = {"/": rules(3)}
    await sources.run(source)
    assert [*items] == [small_site.url]
    assert items[small_site.url].title == "Rules of the lake"
    small_site.pages = {"/other": rules(3)}
    await sources.run(source)
    assert [*items] == [small_site.url]


async def test_all_entries_of_a_long_page_go_with_it(sources: Sources, small_site: SmallSite) -> None:
    small_site.pages = {"/": SentPage('<p>Home<a href="/rules">rules</a>'), "/rules": rules()}
    source = await sources.crawl(small_site.url)
    await sources.run(source)
    del small_site.pages["/rules"]
    run = await sources.run(source)
    assert (run.status, run.removed) == (SourceRunStatus.OK, 1)
    assert [*sources.entries.items] == [small_site.url]


async def test_a_long_file_is_several_entries(sources: Sources) -> None:
    text = "\n\n".join(f"## Clause {n}\n\n{'The tenant pays on the first. ' * 20}" for n in range(900))
    source = await upload(sources, "lease.md", f"# Lease\n\n{text}".encode())
    assert (await sources.run(source)).status is SourceRunStatus.OK
    assert all(any(f"Clause {n}\n" in item.text for item in sources.entries.items.values()) for n in range(900))
    assert (await sources.run(source)).counts == {"unchanged": 1}


async def test_a_secret_in_one_part_keeps_all_parts_as_they_were(sources: Sources, small_site: SmallSite) -> None:
    small_site.pages = {"/": rules()}
    source = await sources.crawl(small_site.url, depth=0)
    await sources.run(source)
    before = dict(sources.entries.items)
    small_site.pages = {"/": rules(650, changed=640, text=SECRET)}
    run = await sources.run(source)
    assert run.status is SourceRunStatus.ERROR
    assert sources.entries.items == before


class Deaths:
    """Ends a runner when it comes to a failpoint for the second time."""

    def __init__(self) -> None:
        self._left = 2

    async def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise Killed


async def test_no_part_is_left_over_when_a_run_is_killed_between_two_parts_and_the_page_changes_again(
    sources: Sources, small_site: SmallSite
) -> None:
    small_site.pages = {"/": rules(700)}
    source = await sources.crawl(small_site.url, depth=0)
    run = await sources.request(source)
    with pytest.raises(Killed):
        async with failpoints.during("source.after_entry", Deaths()):
            await sources.carry_out(run)
    assert len(sources.entries.items) == 2

    await sources.let_lease_pass(run)
    small_site.pages = {"/": SentPage("<title>Rules</title><p>Ask the harbour office.")}
    ended = await sources.carry_out(run)
    assert ended.status is SourceRunStatus.OK
    assert [item.text for item in sources.entries.items.values()] == ["Ask the harbour office."]


async def test_a_run_that_is_killed_between_two_parts_of_a_changed_page_stores_the_others_when_it_goes_on(
    sources: Sources, small_site: SmallSite
) -> None:
    small_site.pages = {"/": rules(700)}
    source = await sources.crawl(small_site.url, depth=0)
    await sources.run(source)
    small_site.pages = {"/": SentPage(str(rules(700).body).replace("gives way", "waits"))}
    run = await sources.request(source)
    with pytest.raises(Killed):
        async with failpoints.during("source.after_entry", Deaths()):
            await sources.carry_out(run)
    await sources.let_lease_pass(run)
    ended = await sources.carry_out(run)
    assert (ended.status, ended.counts) == (SourceRunStatus.OK, {"updated": 1})
    assert not any("gives way" in item.text for item in sources.entries.items.values())
