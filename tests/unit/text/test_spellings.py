"""Usual spellings of the same thing have a term in common, and those of other things have none."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_local.search_node.word_segmentation import split_words
from kb_shared.text.spellings import find_spellings, spelled_terms

SAME: dict[str, tuple[str, ...]] = {
    "an article number": ("KX-77/31", "KX 77 31", "KX77/31", "kx-77-31", "KX7731"),
    "an account": ("NL91 ABNA 0417 1643 00", "NL91ABNA0417164300", "NL91-ABNA-0417-1643-00"),
    "a telephone number": ("+31 (0)20 794 0800", "+31207940800", "020 7940800", "020/794-0800"),
    "a book": ("ISBN 978-0-306-40615-7", "9780306406157", "978 0 306 40615 7"),
    "a network card": ("3C:52:82:0A:11:FE", "3c-52-82-0a-11-fe", "3C52820A11FE"),
    "a size": ("M12x80", "M12 x 80", "M12\u00d780", "M12 \u00d7 80"),
    "a language of programs": ("F#", "f#", "FSharp"),
    "an editor": ("Notepad++", "notepad++", "NotepadPlusPlus"),
    "a department": ("M&A", "M & A", "m&a"),
    "a name in a program": ("read_next_page", "readNextPage", "ReadNextPage", "read-next-page"),
    "a register": ("0xDEAD01", "0XDEAD01", "0xdead01"),
    "a large number": ("12,345.60", "12.345,60", "12 345,60", "12'345.60", "12345.60"),
    "a fraction": ("3,75", "3.75"),
    "a day": ("2025-11-04", "04.11.2025", "4.11.2025", "4 November 2025", "November 4, 2025", "4. November 2025"),
    "a time": ("21:05", "21.05", "9:05 pm"),
    "a name with an apostrophe": ("D\u2019Arcy", "D'Arcy", "DArcy", "D\u02bcArcy"),
    "a city": ("M\u00fcnchen", "Muenchen"),
    "Turkish capitals": ("\u0130ZM\u0130R", "izmir", "\u0130zmir"),
    "a dotless i": ("KIRIK", "k\u0131r\u0131k", "kirik"),
    "a French dish": ("cr\u00e8me br\u00fbl\u00e9e", "creme brulee"),
    "a Polish name": ("\u0141\u00f3d\u017a", "Lodz"),
    "a shift": ("24/7", "24x7"),
}
WITHIN: list[tuple[str, str]] = [
    ("yearly_plan_draft-v3.docx", "plan draft"),
    ("build.example.net", "build"),
    ("anna.kern@example.net", "kern"),
    ("org.example.ledger.BookKeeper", "book keeper"),
    ("D:\\Tools\\Vega\\vega.conf", "vega"),
    ("#GreenHarbour24", "green harbour"),
    ("closed.Delivery", "delivery"),
    ("4.12.7", "4.12"),
    ("v4.12.7-beta", "4.12.7"),
    ("Elif'in", "Elif"),
    ("Kund*innen", "Kundinnen"),
    (".NET", "dotnet"),
]
DIFFERENT: list[tuple[str, str]] = [
    ("KX-77/31", "KX-77/32"),
    ("NL91 ABNA 0417 1643 00", "NL92 ABNA 0417 1643 01"),
    ("+31 20 794 0800", "+31 20 794 0801"),
    ("F#", "F++"),
    ("F", "F#"),
    ("M12x80", "M12x85"),
    ("12,345.60", "12,345.70"),
    ("7.5", "75"),
    ("2025-11-04", "2025-11-05"),
    ("21:05", "21:06"),
    ("D'Arcy", "D'Angelo"),
]


def wholes(text: str, *, in_query: bool = False) -> set[str]:
    return {term for spelling in find_spellings(text, in_query=in_query) for term in spelling.wholes}


def terms(text: str, *, in_query: bool = False) -> set[str]:
    """Return all that a text is found by: its words and their other spellings."""
    others = [one for spelling in find_spellings(text, in_query=in_query) for one in spelling.wholes + spelling.parts]
    return {word.casefold() for word in split_words(text)} | set(others)


@pytest.mark.parametrize("what", SAME)
def test_each_spelling_finds_each_other(what: str) -> None:
    for written in SAME[what]:
        for asked in SAME[what]:
            shared = terms(f"It says {written} here.") & terms(asked, in_query=True)
            # Not by a part that others have, too.
            assert max(map(len, shared), default=0) > 1, (written, asked)


@pytest.mark.parametrize(("written", "asked"), WITHIN)
def test_the_words_within_a_name_are_found(written: str, asked: str) -> None:
    assert {word.casefold() for word in split_words(asked)} <= terms(f"Open {written} first.")


@pytest.mark.parametrize(("written", "asked"), DIFFERENT)
def test_a_nearly_equal_thing_lacks_the_term_for_all_of_it(written: str, asked: str) -> None:
    longest = max(wholes(asked) or {asked.lower()}, key=len)
    assert longest not in terms(written)


def test_a_script_without_spaces_is_found_by_any_part_of_it() -> None:
    written = "\u0e2a\u0e16\u0e32\u0e19\u0e35\u0e23\u0e16\u0e44\u0e1f\u0e01\u0e25\u0e32\u0e07"
    asked = written[6:]
    assert set(spelled_terms(asked)) <= set(spelled_terms(written))
    assert spelled_terms(asked)


def test_a_word_of_hangul_is_found_without_its_particle() -> None:
    assert set(spelled_terms("\uc11c\ube44\uc2a4\ub97c")) & set(spelled_terms("\uc11c\ube44\uc2a4"))


@pytest.mark.parametrize(
    "text", ["A plain sentence, with (ordinary) words.", "Two of them. \u041e\u0431\u044b\u0447\u043d\u043e.", ""]
)
def test_plain_words_have_no_other_spelling(text: str) -> None:
    assert spelled_terms(text) == []


def test_a_table_of_numbers_has_a_bounded_number_of_terms() -> None:
    assert len(spelled_terms(" ".join(str(number) for number in range(1_000, 5_000)))) <= 2_000


@given(st.text(), st.booleans())
def test_terms_are_single_words_of_the_index_and_lie_within_the_text(text: str, in_query: bool) -> None:
    for spelling in find_spellings(text, in_query=in_query):
        assert 0 <= spelling.start < spelling.end <= len(text)
        assert spelling.wholes or spelling.parts
        assert all(len(term) > 1 for term in spelling.wholes + spelling.parts)


@given(st.from_regex(r"[A-Z]{1,3}[0-9]{2,4}([-/ ][0-9]{2,4}){1,2}", fullmatch=True))
def test_separators_of_a_code_do_not_matter(code: str) -> None:
    compact = code.replace("-", "").replace("/", "").replace(" ", "")
    assert compact.lower() in terms(f"See {code} for it.")
    assert compact.lower() in terms(code.lower(), in_query=True)


@given(st.dates(min_value=date(1900, 1, 1)))
def test_a_day_is_the_same_in_each_notation(day: date) -> None:
    written = [f"{day:%Y-%m-%d}", f"{day:%d.%m.%Y}", f"{day:%d/%m/%Y}", f"{day:%B %d, %Y}", f"{day:%d %b %Y}"]
    assert all(f"{day:%Y%m%d}" in spelled_terms(f"on {each}.") for each in written), written
