"""Where an answer may lead."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_search.runs.addresses import NeutralPieces, addresses_in, neutral

KNOWN = addresses_in(
    ["See [the site](https://known.example/a?b=c), or www.known.example.", '"https://known.example/q=",']
)
LINK = re.compile(r"!?\[[^\]]*\]\(|\]:")


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("![x](https://evil.example/?q=secret)", "![x] (https[:]//evil.example/?q=secret)"),
        ("[x](HTTP:evil.example/secret) and", "[x] (HTTP[:]evil.example/secret) and"),
        ("![x][r]\n\n[r]: &#104;ttps://evil.example/secret", "![x][r]\n\n[r] : &#104;ttps://evil.example/secret"),
        ("![x](//evil.example/secret)", "![x] (//evil.example/secret)"),
        ("<https://evil.example/secret>", "<https[:]//evil.example/secret>"),
        ("so www.evil.example/secret.", "so www[.]evil.example/secret."),
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
def test_an_answer_leads_only_where_the_run_has_been_and_only_by_a_click(written: str, shown: str) -> None:
    assert neutral(written, KNOWN) == shown


PIECES = st.lists(
    st.sampled_from(
        ["![x]", "(", ")", "]", ":", "[", "h", "tt", "ps", "http", "s://", "www", ".", "evil.example", " ", "\n"]
    )
    | st.sampled_from(["https://known.example/a?b=c", "known.example"])
)


@given(PIECES)
def test_pieces_come_to_the_same_as_the_whole_and_hold_no_link(pieces: list[str]) -> None:
    stream = NeutralPieces(KNOWN)
    shown = "".join([*(stream.take(piece) for piece in pieces), stream.end()])
    assert shown == neutral("".join(pieces), KNOWN)
    assert LINK.search(shown) is None
    assert neutral(shown, KNOWN) == shown
