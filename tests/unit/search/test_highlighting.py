"""Words of a query are marked where the text index finds them, in what only the vector index found, too."""

from typing import Final, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_contracts.api.knowledge_bases import TextAnalyzer
from kb_search.retrieval.highlighting import MAX_HIGHLIGHTS, Highlighter, terms_of
from kb_shared.mongo.text_analyzers import ENGLISH_STOP_WORDS
from tests.unit.chunking.test_tokens_are_counted_once import ALL_SCRIPTS
from tests.unit.search_node.test_custom_analyzers import CUSTOM

PROSE: Final = """
The filter's ﬁlters don't filter 3,141.59 U.S.A. files; co\u00adoperation, naïve RÉSUMÉS
of foo_bar and e-mail@example.com.
L'école d'été n'est pas qu'aujourd'hui. Die größten Häuser der Straßen. Los niños corrían rápidamente.
Быстрые коричневые лисы прыгали. 東京タワーへ行きました。 Hyvää päivää, ystäväni! Gli amici dell'università.
"""


def marked(query: str, text: str, analyzer: str = "lucene.english") -> list[str]:
    return [text[start:end] for start, end in Highlighter(query).find(text, analyzer)]


def test_all_forms_of_a_word_are_marked_as_they_are_written() -> None:
    assert marked("filtering widgets", "Filters! A ﬁltered WIDGET's fil\u00adters.") == [
        *("Filters", "ﬁltered", "WIDGET's", "fil\u00adters")
    ]
    assert marked("filtering", "filters filter filtering", "lucene.standard") == ["filtering"]
    assert marked("Häuser", "Ein HAUS, zwei Häusern", "lucene.german") == ["HAUS", "Häusern"]
    assert marked("l'école", "Cette école et l'école", "lucene.french") == ["école", "l'école"]


@pytest.mark.parametrize("analyzer", ["lucene.english", "lucene.standard"])
def test_words_without_meaning_are_not_marked(analyzer: str) -> None:
    assert marked("what is the price of it", "It is what it is: the Price.", analyzer) == ["Price"]
    assert marked("the", "the", analyzer) == []


def test_a_text_of_matches_alone_has_a_limited_number_of_marks() -> None:
    assert len(marked("word", "word " * 5_000)) == MAX_HIGHLIGHTS


@pytest.mark.parametrize("analyzer", get_args(TextAnalyzer))
def test_terms_are_those_of_the_text_index(analyzer: str) -> None:
    text = PROSE + ALL_SCRIPTS
    of_index = {term for term in CUSTOM[analyzer].terms(text) if term}
    if analyzer == "lucene.standard":
        of_index -= set(ENGLISH_STOP_WORDS)
    # Parts of emoji do not count, nor do words of more than 255 characters, which Lucene cuts.
    different = {term for term in of_index ^ set(terms_of(text, analyzer)) if term[0].isalnum() and len(term) < 100}
    assert different == set()
    assert len(of_index) > 150


SPELLED: list[tuple[str, str, list[str]]] = [
    ("KX7731", "Order KX-77/31 today.", ["KX-77/31"]),
    ("max-page-limit", "Raise max_page_limit first.", ["max_page_limit"]),
    ("4 November 2025", "Closed on 2025-11-04.", ["2025-11-04"]),
    ("kayak", "A red kayak.", ["kayak"]),
]


@pytest.mark.parametrize(("query", "text", "expected"), SPELLED)
def test_another_spelling_is_marked_as_it_is_written(query: str, text: str, expected: list[str]) -> None:
    spans = Highlighter(query).find(text, "lucene.standard", has_spellings=True)
    assert [text[start:end] for start, end in spans] == expected


@given(st.text(), st.text())
def test_marks_of_other_spellings_do_not_overlap_either(query: str, text: str) -> None:
    before = 0
    for start, end in Highlighter(f"{query} {text[:20]}").find(text, "lucene.english", has_spellings=True):
        assert before <= start < end <= len(text)
        before = end


@given(st.text(), st.text())
def test_marks_are_ordered_within_the_text_and_do_not_overlap(query: str, text: str) -> None:
    before = 0
    for start, end in Highlighter(f"{query} {text[:20]}").find(text, "lucene.french"):
        assert before <= start < end <= len(text)
        before = end
