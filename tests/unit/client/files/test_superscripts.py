"""Raised and lowered digits can be told from those of the number before them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_client.files.formats.text.superscripts import plain_fractions, subscript, superscript


@pytest.mark.parametrize(
    ("before", "raised", "line"),
    [
        ("10", "9", "10^9"),
        ("10", "-12", "10^-12"),
        ("10", "\u221212", "10^-12"),
        ("40 CHF", "3", "40 CHF^3"),
        ("see note", "4,5", "see note^4,5"),
        ("x", "n + 1", "x^(n + 1)"),
        ("30 m", "2", "30 m²"),
        ("9.81 m/s", "2", "9.81 m/s²"),
        ("60m", "3", "60m³"),
        ("warm", "2", "warm^2"),
        ("the 21", "st", "the 21st"),
        ("Brightol", "TM", "Brightol™"),
        ("80", "°", "80°"),
        ("price", "*", "price*"),
        ("Na", "+", "Na^+"),
    ],
)
def test_a_raised_text_does_not_join_the_number_before_it(before: str, raised: str, line: str) -> None:
    assert before + superscript(raised, after=before) == line


@pytest.mark.parametrize(
    ("before", "lowered", "after", "line"),
    [
        ("CO", "2", " filter", "CO₂ filter"),
        ("SO", "4", "", "SO₄"),
        ("t", "n-1", "", "tₙ₋₁"),
        ("v", "max", "", "vₘₐₓ"),
        ("T", "cold", "", "T_cold"),
        ("f", "(low, high)", "", "f_((low, high))"),
    ],
)
def test_a_lowered_text_does_not_join_what_stands_before_it(before: str, lowered: str, after: str, line: str) -> None:
    assert before + subscript(lowered) + after == line


@pytest.mark.parametrize(
    ("written", "line"),
    [
        (f"2{superscript('1')}/{subscript('4')} inch", "2 1/4 inch"),
        (f"{superscript('3')}\u2044{subscript('8')}", "3/8"),
        ("10^3/x", "10^3/x"),
    ],
)
def test_a_fraction_of_small_digits_is_a_fraction(written: str, line: str) -> None:
    assert plain_fractions(written) == line


@given(st.from_regex(r"[0-9]{1,6}", fullmatch=True), st.from_regex(r" ?[-+]?[0-9]{1,4} ?", fullmatch=True))
def test_no_raised_or_lowered_number_reads_as_one_number_with_the_digits_before_it(base: str, small: str) -> None:
    for line in (base + superscript(small, after=base), base + subscript(small)):
        assert re.findall(r"[0-9]+", line)[0] == base
        assert line.startswith(base)
