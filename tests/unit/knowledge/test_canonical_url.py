import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_knowledge.sources.canonical_url import canonical_url, other_spellings
from kb_knowledge.sources.crawl_scope import CrawlScope, UnusablePrefix


@pytest.mark.parametrize(
    ("address", "canonical"),
    [
        ("HTTP://Example.COM:80", "http://example.com/"),
        ("https://example.com:443/a#part", "https://example.com/a"),
        ("https://example.com/a/../b/./c", "https://example.com/b/c"),
        ("https://example.com/%7euser/%c3%a4?q=%2f", "https://example.com/~user/%C3%A4?q=%2F"),
        ("https://example.com/ä", "https://example.com/%C3%A4"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://example.com/a?utm_source=x&b=2&a=1&fbclid=3", "https://example.com/a?b=2&a=1"),
        ("https://example.com/a;jsessionid=1A2B?PHPSESSID=abc", "https://example.com/a"),
        ("https://example.com/a?sid=0123456789abcdef0123", "https://example.com/a"),
        ("https://example.com/a?sid=7", "https://example.com/a?sid=7"),
        ("https://example.com/a?", "https://example.com/a"),
        (" https://exam\nple.com/a ", "https://example.com/a"),
    ],
)
def test_spellings_of_an_address_have_one_form(address: str, canonical: str) -> None:
    assert canonical_url(address) == canonical
    assert canonical_url(canonical) == canonical


@pytest.mark.parametrize(
    "address",
    ["mailto:a@example.com", "javascript:void(0)", "data:text/html,x", "http://u@example.com/", "http://", "http://[x",
     "http://example.com\\a", "http://example.com/" + "a" * 2_000],
)  # fmt: skip
def test_what_is_no_address_of_a_page_has_none(address: str) -> None:
    assert canonical_url(address) is None


def test_servers_show_one_page_under_several_addresses() -> None:
    origin = "https://example.com"
    assert set(other_spellings(f"{origin}/Docs/a")) == {f"{origin}/Docs/a/", f"{origin}/docs/a"}
    assert f"{origin}/docs/?a=1" in other_spellings(f"{origin}/docs/index.php?a=1")
    assert f"{origin}/docs" in other_spellings(f"{origin}/docs/")
    assert f"{origin}/index.html" in other_spellings(f"{origin}/")
    assert f"{origin}/" in other_spellings(f"{origin}/index.html")
    assert origin not in other_spellings(f"{origin}/")


def test_a_link_is_relative_to_its_page() -> None:
    base = "https://example.com/docs/start?x=1"
    links = ["../a", "b#c", "?y=2", "//other.example/d", "", "/"]
    assert [canonical_url(link, base=base) for link in links] == [
        "https://example.com/a", "https://example.com/docs/b", "https://example.com/docs/start?y=2",
        "https://other.example/d", "https://example.com/docs/start?x=1", "https://example.com/",
    ]  # fmt: skip


@given(st.text(max_size=60), st.sampled_from(["", "http://example.com/", "/", "//", "?", "http://"]))
def test_a_canonical_form_is_its_own_and_nothing_raises(text: str, before: str) -> None:
    canonical = canonical_url(before + text, base="http://example.com/a/b")
    if canonical is not None:
        assert canonical_url(canonical) == canonical


def test_a_source_without_prefixes_is_its_origin() -> None:
    scope = CrawlScope.from_source("https://example.com/docs/")
    inside = ["https://example.com/", "https://example.com/other?x=1"]
    outside = ["http://example.com/", "https://www.example.com/", "https://example.com.evil.example/"]
    assert [scope.contains(url) for url in inside + outside] == [True, True, False, False, False]


def test_prefixes_replace_the_origin_and_end_at_a_part_of_the_path() -> None:
    scope = CrawlScope.from_source("https://example.com/", ["/docs", "https://other.example/a/"])
    inside = ["https://example.com/", "https://example.com/docs", "https://example.com/docs/a", "https://example.com/docs?b",
              "https://other.example/a/b"]  # fmt: skip
    outside = ["https://example.com/docs-old", "https://example.com/x", "https://other.example/ab"]
    assert [scope.contains(url) for url in inside + outside] == [True] * 5 + [False] * 3


@pytest.mark.parametrize("prefix", ["docs", "ftp://example.com/", "https://u@example.com/", "/a?b=1", ""])
def test_a_prefix_is_an_address_or_a_path(prefix: str) -> None:
    with pytest.raises(UnusablePrefix):
        CrawlScope.from_source("https://example.com/", [prefix])
