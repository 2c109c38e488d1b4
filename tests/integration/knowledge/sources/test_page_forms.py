"""Pages and sitemaps in the forms in which servers send them, and what a run says that has read nothing."""

import gzip

import pytest

from kb_knowledge.store.source_runs import RunTrigger, SourceRunStatus
from tests.integration.knowledge.sources.small_site import HTML, SentPage, SmallSite, moved, page
from tests.integration.knowledge.sources.source_runs import Sources

HARBOUR = page("Harbour", "Ships leave at seven.")
PLAIN = {"Content-Type": HTML}


def refreshing(content: str) -> SentPage:
    return SentPage(
        f"<html><head><title>Wait</title><META CONTENT={content} HTTP-EQUIV=Refresh></head><body>Wait.</body>"
    )


@pytest.mark.parametrize(
    "first",
    [
        refreshing('"0; URL=/harbour"'),
        refreshing('"0;url=harbour"'),
        refreshing("'3; url=\"/harbour\"'"),
        refreshing("\"0, URL = '/harbour'\""),
        refreshing('"0 /harbour"'),
        refreshing("0;/harbour"),
        refreshing('".5;url=/harbour"'),
        refreshing('"1;URL=&#47;harbour"'),
        SentPage("Wait.", headers=PLAIN | {"Refresh": "0; url=/harbour"}),
        SentPage("", headers=PLAIN | {"Refresh": "0;/harbour"}),
        moved("/harbour", 307),
        SentPage('<frameset cols="20%,80%"><frame src="/harbour"><noframes>No frames.</noframes></frameset>'),
        SentPage('<body><iframe src="harbour" width="100%"></iframe></body>'),
        SentPage('<body><p>Welcome to the port.<iframe src="harbour"></iframe></body>'),
    ],
)
async def test_a_first_page_that_leads_on_by_itself_is_followed(
    sources: Sources, small_site: SmallSite, first: SentPage
) -> None:
    small_site.pages = {"/": first, "/harbour": HARBOUR}
    run = await sources.run(await sources.crawl(small_site.url, depth=0))
    assert (run.status, run.error) == (SourceRunStatus.OK, None)
    assert sources.entries.items[f"{small_site.url}harbour"].text == "# Harbour\n\nShips leave at seven."
    assert "Wait." not in str(sources.entries.items)


async def test_the_links_of_a_first_page_without_text_are_followed_and_the_run_says_so(
    sources: Sources, small_site: SmallSite
) -> None:
    small_site.pages = {"/": SentPage('<a href="/harbour"><img src="port.png"></a>'), "/harbour": HARBOUR}
    run = await sources.run(await sources.crawl(small_site.url))
    assert (run.status, run.counts) == (SourceRunStatus.PARTIAL, {"failed": 1, "created": 1})
    assert run.error == "the first page was not read: it has no text"


@pytest.mark.parametrize(
    "first",
    [
        refreshing('"300; url=/harbour"'),
        refreshing('"5"'),
        refreshing('"5; url=/"'),
        SentPage('<noscript><meta http-equiv="refresh" content="0;url=/harbour"></noscript><p>Wait.'),
        SentPage('<!-- <meta http-equiv="refresh" content="0;url=/harbour"> --><p>Wait.'),
        SentPage('<script>"<meta http-equiv=refresh content=0;/harbour>"</script><p>Wait.'),
    ],
)
async def test_a_page_that_stays_is_read_itself(sources: Sources, small_site: SmallSite, first: SentPage) -> None:
    small_site.pages = {"/": first, "/harbour": HARBOUR}
    run = await sources.run(await sources.crawl(small_site.url, depth=0))
    assert run.counts == {"created": 1}
    assert sources.entries.items[small_site.url].text == "Wait."


async def test_ten_redirects_are_followed_and_no_more(sources: Sources, small_site: SmallSite) -> None:
    small_site.pages = {f"/{n}": moved(f"/{n + 1}") for n in range(20)} | {"/10": HARBOUR}
    run = await sources.run(await sources.crawl(f"{small_site.url}0", depth=0))
    assert run.counts == {"redirected": 10, "created": 1}
    small_site.pages["/10"] = moved("/11")
    run = await sources.run(await sources.crawl(f"{small_site.url}0", depth=0))
    assert run.status is SourceRunStatus.ERROR
    assert "more than 10 times" in (run.error or "")


@pytest.mark.parametrize(
    ("tag", "created"),
    [
        ("noindex", 1), ("NONE", 1), ("noarchive, NoIndex", 1), ("knowledge-bases-crawler: noindex", 1),
        ("otherbot: noindex", 2), ("otherbot: noindex, nofollow", 2), ("noarchive", 2),
        ("unavailable_after: 25 Jun 2099 15:00:00 GMT", 2), ("max-snippet: 20, noindex", 1),
        ("otherbot: noindex, knowledge-bases-crawler: none", 1),
    ],
)  # fmt: skip
async def test_the_header_for_robots_counts_for_all_and_for_us(
    sources: Sources, small_site: SmallSite, tag: str, created: int
) -> None:
    inner = SentPage(HARBOUR.body, headers=PLAIN | {"X-Robots-Tag": tag})
    small_site.pages = {"/": page("Port", "All about it.", "/harbour"), "/harbour": inner}
    run = await sources.run(await sources.crawl(small_site.url))
    assert (run.status, (run.counts or {})["created"]) == (SourceRunStatus.OK, created)


async def test_links_of_a_page_with_nofollow_in_its_header_are_not_followed(
    sources: Sources, small_site: SmallSite
) -> None:
    first = page("Port", "All about it.", "/harbour")
    small_site.pages = {"/": SentPage(first.body, headers=PLAIN | {"X-Robots-Tag": "nofollow"}), "/harbour": HARBOUR}
    run = await sources.run(await sources.crawl(small_site.url))
    assert run.counts == {"created": 1}


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (HARBOUR.body, None),
        (HARBOUR.body, "application/octet-stream"),
        (HARBOUR.body, "text/plain"),
        (HARBOUR.body, "application/xml"),
        (HARBOUR.body, "text"),
        (HARBOUR.body, "text/html, text/html; charset=utf-8"),
        (f"\ufeff\n<!-- made by hand -->\n{HARBOUR.body!s}", "binary/octet-stream"),
        ("# Harbour\n\nShips leave at seven.", None),
        ("# Harbour\n\nShips leave at seven.", "application/octet-stream"),
    ],
)
async def test_a_page_without_a_type_or_with_a_wrong_one_is_read_as_what_it_is(
    sources: Sources, small_site: SmallSite, body: str, content_type: str | None
) -> None:
    small_site.pages = {"/": SentPage(body, headers={"Content-Type": content_type} if content_type else {})}
    run = await sources.run(await sources.crawl(small_site.url))
    assert run.counts == {"created": 1}
    assert "Ships leave at seven." in sources.entries.items[small_site.url].text
    assert "<p>" not in sources.entries.items[small_site.url].text


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (SentPage('<title>App</title><div id="root"></div><script src="/app.js"></script>'), "scripts"),
        (SentPage("<script>x()</script><p>You need to enable JavaScript to run this app."), "scripts"),
        (SentPage('<noscript>Please enable JavaScript.</noscript><script src="a.js"></script>'), "scripts"),
        (SentPage(""), "no text"),
        (SentPage('<img src="a.png">'), "no text"),
        (SentPage('<h1>Log in</h1><form><input name="u"><input type="PASSWORD"></form>'), "login"),
        (SentPage("<title>x</title><p>x", headers=PLAIN | {"cf-mitigated": "challenge"}), "captcha"),
        (SentPage('<iframe src="http://127.0.0.9:1/"></iframe>'), "frames"),
        (refreshing('"0;url=http://127.0.0.9:1/"'), "outside of the source"),
        (SentPage(b"\x89PNG\r\n\x1a\n", headers={"Content-Type": "image/png"}), "no page of text"),
        (SentPage(b"PK\x03\x04" + bytes(400), headers={"Content-Type": "text/html"}), "no page of text"),
        (SentPage(HARBOUR.body, headers=PLAIN | {"X-Robots-Tag": "noindex"}), "nothing was read (1 skipped)"),
        (moved("/a"), "nothing was read"),
    ],
)
async def test_a_run_that_has_read_nothing_is_an_error_that_says_why(
    sources: Sources, small_site: SmallSite, first: SentPage, says: str
) -> None:
    small_site.pages = {"/": first, "/a": moved("/")}
    run = await sources.run(await sources.crawl(small_site.url, depth=0))
    assert run.status is SourceRunStatus.ERROR
    assert says in (run.error or "")
    assert sources.entries.items == {}


RSS = "<rss version='2.0'><channel><link>{0}</link><item><title>H</title><link>{0}harbour</link></item></channel></rss>"
ATOM = (
    "<feed xmlns='http://www.w3.org/2005/Atom'><link href='{0}'/><entry><link rel='self' href='{0}x'/>"
    "<link href='{0}harbour'/></entry></feed>"
)


async def test_what_is_to_be_said_of_a_text_is_said_in_each_run_and_counted(
    sources: Sources, small_site: SmallSite
) -> None:
    guessed = SentPage(
        "<title>Harbour</title><p>Caf\u00e9 at the pier, \u20ac 4".encode("cp1252"),
        headers={"Content-Type": "text/html"},
    )
    small_site.pages = {"/": page("Port", "All about it.", "/harbour"), "/harbour": guessed}
    source = await sources.crawl(small_site.url)
    for counts in ({"created": 2}, {"unchanged": 2}):
        run = await sources.run(source)
        assert (run.status, run.counts, run.warnings) == (SourceRunStatus.OK, counts, 1)
        [message] = run.messages
        assert message.startswith(f"{small_site.url}harbour: warning: ")
        assert "encoding" in message
    preview = await sources.run(source, RunTrigger.PREVIEW)
    assert preview.warnings == 1


SITEMAP = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    "<url><loc>{0}harbour</loc></url></urlset>"
)


async def crawl_by_sitemap(sources: Sources, small_site: SmallSite, sitemap: bytes) -> None:
    small_site.pages = {
        "/": page("Port", "All about it."),
        "/robots.txt": SentPage("sitemap : /map", headers={"Content-Type": "text/plain"}),
        "/map": SentPage(sitemap, headers={"Content-Type": "text/html"}),
        "/harbour": HARBOUR,
    }
    run = await sources.run(await sources.crawl(small_site.url))
    assert f"{small_site.url}harbour" in sources.entries.items
    assert run.status is SourceRunStatus.OK


@pytest.mark.parametrize(
    "body",
    [
        SITEMAP,
        f"\n \n{SITEMAP}",
        f"\ufeff\n{SITEMAP}",
        f"{SITEMAP}\n<script>count()</script>",
        f"{SITEMAP} done in 0.2 s",
        SITEMAP.replace("</urlset>", "<url><loc>{0}a?b=1&c=2</loc></url></urlset>"),
        SITEMAP.replace("harbour", "harbour\n").replace("<loc>", "<loc>\n\t"),
        SITEMAP.replace("<loc>{0}harbour", "<loc><![CDATA[{0}harbour]]>").replace("</urlset>", ""),
        "{0}harbour\n{0}nowhere\n",
        "\ufeff{0}harbour\r\n",
        RSS,
        ATOM,
    ],
)
async def test_a_sitemap_is_read_although_it_is_not_quite_one(
    sources: Sources, small_site: SmallSite, body: str
) -> None:
    await crawl_by_sitemap(sources, small_site, body.format(small_site.url).encode())


async def test_a_compressed_sitemap_is_read(sources: Sources, small_site: SmallSite) -> None:
    await crawl_by_sitemap(sources, small_site, gzip.compress(SITEMAP.format(small_site.url).encode()))


@pytest.mark.parametrize(
    ("robots", "pages", "status"),
    [
        ("Sitemap: /map", {"/map": SentPage(status=503)}, SourceRunStatus.PARTIAL),
        ("Sitemap: /map", {"/map": SentPage("<sitemapindex><sitemap><loc>/part</loc></sitemap></sitemapindex>"),
                           "/part": SentPage(status=500)}, SourceRunStatus.PARTIAL),
        ("Sitemap: /map", {"/map": SentPage(status=404)}, SourceRunStatus.OK),
        ("Sitemap: /map", {"/map": SentPage("<html><p>Hello</html>")}, SourceRunStatus.OK),
        ("", {"/sitemap.xml": SentPage(status=503)}, SourceRunStatus.OK),
    ],
)  # fmt: skip
async def test_a_run_says_that_a_sitemap_which_the_server_names_could_not_be_fetched(
    sources: Sources, small_site: SmallSite, robots: str, pages: dict[str, SentPage], status: SourceRunStatus
) -> None:
    plain = {"Content-Type": "text/plain"}
    small_site.pages = {"/": page("Port", "All of it."), "/robots.txt": SentPage(robots, headers=plain), **pages}
    run = await sources.run(await sources.crawl(small_site.url))
    assert (run.status, run.counts) == (status, {"created": 1})
    assert status is SourceRunStatus.OK or "pages that only it names were not found" in str(run.error)


async def test_a_page_that_repeats_another_one_under_a_usual_spelling_has_no_entry(
    sources: Sources, small_site: SmallSite
) -> None:
    port = page("Port", "All of it.", "/index.html", "/harbour", "/harbour/", "/print", "/quay", "/quay/")
    copy = page("Harbour", "Ships leave at seven.", head='<link rel=canonical href="/harbour">')
    small_site.pages = {
        "/": port, "/index.html": port, "/harbour": HARBOUR, "/harbour/": HARBOUR, "/print": copy,
        "/quay": page("Quay", "It is closed."), "/quay/": page("Quay", "What lies at the quay."),
    }  # fmt: skip
    source = await sources.crawl(small_site.url)
    for _ in range(2):
        run = await sources.run(source)
        assert run.status is SourceRunStatus.OK
        assert {key.removeprefix(small_site.url) for key in sources.entries.items} == {"", "harbour", "quay", "quay/"}


async def test_rules_at_the_beginning_of_a_huge_robots_txt_count(sources: Sources, small_site: SmallSite) -> None:
    rules = SentPage(
        "User-agent: *\nDisallow: /harbour\n" + "# more\n" * 500_000, headers={"Content-Type": "text/plain"}
    )
    small_site.pages = {"/": page("Port", "All of it.", "/harbour"), "/harbour": HARBOUR, "/robots.txt": rules}
    run = await sources.run(await sources.crawl(small_site.url))
    assert (run.status, run.counts) == (SourceRunStatus.OK, {"created": 1, "skipped": 1})


async def test_pages_of_a_server_whose_robots_txt_fails_stay(sources: Sources, small_site: SmallSite) -> None:
    small_site.pages = {"/": page("Port", "All about it.", "/harbour"), "/harbour": HARBOUR}
    source = await sources.crawl(small_site.url)
    await sources.run(source)
    small_site.pages["/robots.txt"] = SentPage(status=503)
    run = await sources.run(source)
    assert (run.status, run.removed, len(sources.entries.items)) == (SourceRunStatus.ERROR, 0, 2)
