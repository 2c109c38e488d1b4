"""Words that a line or a page has cut are whole, and hyphens that belong to a word stay."""

import pytest

from kb_client.files.formats.pdf.hyphenation import join_hyphenated

HYPHEN = "\x02"
"""Character that pdfium writes for a hyphen and the line end after it."""


@pytest.mark.parametrize(
    ("cut", "whole"),
    [
        ("the bak|ery opens", "the bakery opens"),
        ("write an e|mail now", "write an e-mail now"),
        ("the x|axis", "the x-axis"),
        ("Haupt|und Nebensatz", "Haupt- und Nebensatz"),
        ("Vor|oder Nachteile", "Vor- oder Nachteile"),
        ("short|and long-term plans", "short- and long-term plans"),
        ("der Frau|en", "der Frauen"),
        ("a state|of-the-art oven", "a state-of-the-art oven"),
        ("a state-of|the-art oven", "a state-of-the-art oven"),
        ("a face-to|face talk", "a face-to-face talk"),
        ("a self-docu|menting recipe", "a self-documenting recipe"),
        ("JavaScript or Java|Script", "JavaScript or JavaScript"),
        ("a document, THE DOCU|MENT", "a document, THE DOCUMENT"),
        ("the X|Ray of an XML|based list", "the X-Ray of an XML-based list"),
        ("COVID|19 in 1990|1995", "COVID-19 in 1990-1995"),
        ("Donau\u2010\ndampf", "Donaudampf"),
        ("Donau\u00ad\ndampf", "Donaudampf"),
    ],
)
def test_a_word_that_a_line_has_cut_is_whole(cut: str, whole: str) -> None:
    assert join_hyphenated([cut.replace("|", HYPHEN)]) == [whole]


@pytest.mark.parametrize(
    ("pages", "whole"),
    [
        (["An old bak-", "ery, closed."], ["An old bakery,", "closed."]),
        (["An old bak-\n", "", "\nery"], ["An old bakery", "", ""]),
        (["Vor-", "und Nachteile"], ["Vor- und", "Nachteile"]),
        (["An e\u2010", "mail came"], ["An e-mail", "came"]),
        (["Costs: -", "none"], ["Costs: -", "none"]),
        (["Gate A-", "Exit"], ["Gate A-", "Exit"]),
        (["Pages 5-", "10"], ["Pages 5-", "10"]),
    ],
)
def test_a_word_that_a_page_has_cut_is_on_the_first_of_the_two(pages: list[str], whole: list[str]) -> None:
    assert join_hyphenated(pages) == whole
