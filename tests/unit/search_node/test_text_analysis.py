"""Words, stems, edit distances and phrases against slower or independent ways to tell them."""

import itertools
import math

import numpy as np
import pytest
import Stemmer
from hypothesis import assume, given
from hypothesis import strategies as st

from kb_local.search_node import word_segmentation
from kb_local.search_node.bm25 import LENGTHS, encode_length
from kb_local.search_node.edit_distance import edit_distances
from kb_local.search_node.porter import stem
from kb_local.search_node.sloppy_phrase import sloppy_frequency
from kb_local.search_node.word_segmentation import split_words

SPLIT = {
    "it's Bob's 3.14, 1,000; a.b.c x:y": ["it's", "Bob's", "3.14", "1,000", "a.b.c", "x:y"],
    "foo_bar _ __a a_1": ["foo_bar", "__a", "a_1"],
    "10.5kg v2.0 C++ .5 end.": ["10.5kg", "v2.0", "C", "5", "end"],
    "東京ひらカタカナ한국어": ["東", "京", "ひ", "ら", "カタカナ", "한국어"],
    "ภาษาไทย and שלום": ["ภาษาไทย", "and", "שלום"],
    "e\u0301te\u0301 co\u00adop": ["e\u0301te\u0301", "co\u00adop"],
    "\U0001f44d\U0001f3fd \U0001f468\u200d\U0001f469": ["\U0001f44d\U0001f3fd", "\U0001f468\u200d\U0001f469"],
}


@pytest.mark.parametrize("text", SPLIT)
def test_a_text_is_split_into_words_by_the_unicode_rules(text: str) -> None:
    assert split_words(text) == SPLIT[text]


@given(st.text(alphabet="aB1_.',:;- \n\u00e9\u6771\u30bf\u0301\u200d"))
def test_ascii_words_are_the_same_by_the_general_rules(text: str) -> None:
    assert split_words(text) == word_segmentation._WORD.findall(text)


def test_a_word_longer_than_lucenes_limit_comes_in_pieces() -> None:
    assert [len(word) for word in split_words("a" * 600 + " b")] == [255, 255, 90, 1]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *(("caresses", "caress"), ("ponies", "poni"), ("cats", "cat"), ("feed", "feed"), ("agreed", "agre")),
        *(("plastered", "plaster"), ("motoring", "motor"), ("hopping", "hop"), ("falling", "fall"), ("filing", "file")),
        *(("happy", "happi"), ("sky", "sky"), ("relational", "relat"), ("vietnamization", "vietnam")),
        *(("possibly", "possibl"), ("archaeology", "archaeolog"), ("controlling", "control"), ("is", "is")),
        *(
            ("accing", "ac"),
            ("generalizations", "gener"),
            ("oscillators", "oscil"),
            ("adoption", "adopt"),
            ("cease", "ceas"),
        ),
    ],
)
def test_english_words_have_porters_stems(word: str, expected: str) -> None:
    assert stem(word) == expected


@given(
    st.text(alphabet="aeiouystlnrdgm", min_size=3, max_size=9), st.sampled_from(["", "ing", "ed", "ational", "ness"])
)
def test_stems_are_those_of_another_implementation(beginning: str, ending: str) -> None:
    word = beginning + ending
    # It does not undouble these letters, and has not the later departure.
    assume("yy" not in word and "log" not in word)
    assert stem(word) == Stemmer.Stemmer("porter").stemWord(word)


def edits(one: str, other: str) -> int:
    """The textbook's table."""
    table = {(row, 0): row for row in range(len(one) + 1)} | {(0, column): column for column in range(len(other) + 1)}
    for row, column in itertools.product(range(1, len(one) + 1), range(1, len(other) + 1)):
        replaced = table[row - 1, column - 1] + (one[row - 1] != other[column - 1])
        table[row, column] = min(replaced, table[row - 1, column] + 1, table[row, column - 1] + 1)
        if row > 1 and column > 1 and one[row - 2 : row] == other[column - 2 : column][::-1]:
            table[row, column] = min(table[row, column], table[row - 2, column - 2] + 1)
    return table[len(one), len(other)]


@given(st.text("ab\u6771", min_size=1, max_size=5), st.lists(st.text("ab\u6771", min_size=4, max_size=4), max_size=5))
def test_edit_distances_are_those_of_the_textbook(term: str, others: list[str]) -> None:
    assert edit_distances(term, others).tolist() == [edits(term, other) for other in others]


@pytest.mark.parametrize(
    ("text", "phrase", "slop", "expected"),
    [
        ("a b", "a b", 1, 1.0),
        ("a x b", "a b", 1, 1 / 2),
        ("a x x b", "a b", 1, 0.0),
        ("b a", "a b", 2, 1 / 3),
        ("b a", "a b", 1, 0.0),
        ("a b x a b", "a b", 1, 2.0),
        ("a a", "a a", 2, 1.0),
        ("a", "a a", 2, 0.0),
        ("a", "a b", 5, 0.0),
    ],
)
def test_moved_words_make_a_phrase_count_less(text: str, phrase: str, slop: int, expected: float) -> None:
    wanted = [(offset, ord(term)) for offset, term in enumerate(phrase.split())]
    found = sloppy_frequency(np.asarray([ord(term) for term in text.split()], np.uint32), wanted, slop=slop)
    assert found == pytest.approx(expected)


def test_lengths_are_exact_to_forty_and_then_have_four_significant_bits() -> None:
    assert [LENGTHS[encode_length(length)] for length in range(41)] == list(range(41))
    assert [LENGTHS[encode_length(length)] for length in (41, 55, 57, 200, 1000, 5000)] == [40, 54, 56, 200, 984, 4632]
    assert sorted(LENGTHS) == LENGTHS
    assert all(math.isclose(LENGTHS[encode_length(length)], length, rel_tol=1 / 8) for length in range(1, 100_000, 7))
