import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_knowledge.sources.robots import robots_of
from kb_knowledge.sources.sitemap import MAX_SITEMAP_BYTES, UnusableSitemap, parse_sitemap

RULES = b"""\
User-agent: *
Disallow: /

User-agent: Knowledge-Bases-Crawler
Disallow: /private
Allow: /private/open$
Crawl-delay: 3600

Sitemap: https://example.com/sitemap.xml
"""


def test_our_name_in_robots_txt_decides() -> None:
    robots = robots_of(200, RULES)
    urls = ["https://example.com/a", "https://example.com/private/a", "https://example.com/private/open"]
    assert [robots.allows(url) for url in urls] == [True, False, True]
    assert robots.sitemaps == ("https://example.com/sitemap.xml",)
    assert robots.delay_s == 10


@pytest.mark.parametrize(("status", "allowed"), [(404, True), (403, True), (500, False), (503, False), (302, False)])
def test_a_server_without_rules_allows_all_and_one_that_fails_nothing(status: int, *, allowed: bool) -> None:
    assert robots_of(status, b"").allows("https://example.com/a") is allowed


@given(st.binary(max_size=300))
def test_no_rules_make_it_raise(body: bytes) -> None:
    robots = robots_of(200, body)
    robots.allows("https://example.com/a?b=c")
    assert 0 <= robots.delay_s <= 10


URLSET = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{}</urlset>'


def test_a_sitemap_names_pages_and_an_index_names_sitemaps() -> None:
    pages = URLSET.format("<url><loc> https://example.com/a?b=1&amp;c=2 </loc><lastmod>x</lastmod></url><url/>")
    index = "<sitemapindex><sitemap><loc>https://example.com/b.xml</loc></sitemap></sitemapindex>"
    assert parse_sitemap(pages.encode()).pages == ["https://example.com/a?b=1&c=2"]
    assert parse_sitemap(gzip.compress(pages.encode())).pages == ["https://example.com/a?b=1&c=2"]
    for other in (pages.encode("utf-16"), f"<!DOCTYPE urlset>{pages}".encode()):
        assert parse_sitemap(other).pages == ["https://example.com/a?b=1&c=2"]
    assert parse_sitemap(index.encode()).sitemaps == ["https://example.com/b.xml"]


def test_only_the_first_ten_thousand_pages_are_read() -> None:
    pages = URLSET.format("<url><loc>https://example.com/a</loc></url>" * 10_001)
    assert len(parse_sitemap(pages.encode()).pages) == 10_000


@pytest.mark.parametrize(
    "body",
    [
        b"", b"<urlset>", b"not xml", b"\x1f\x8bnot gzip", gzip.compress(b" " * (MAX_SITEMAP_BYTES + 1)),
        b'<!DOCTYPE a [<!ENTITY b "c">]><urlset><url><loc>&b;</loc></url></urlset>',
        b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><urlset><url><loc>&b;</loc></url></urlset>',
        b'<!DOCTYPE a SYSTEM "http://127.0.0.1/a.dtd"><urlset/>',
    ],
)  # fmt: skip
def test_hostile_and_broken_sitemaps_are_refused(body: bytes) -> None:
    with pytest.raises(UnusableSitemap):
        parse_sitemap(body)
