"""What an embedding model is given of a text."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_shared.text.text_normalization import AS_WRITTEN, CURRENT, FOLDED, for_model

TYPESET = st.text(alphabet=st.sampled_from("ab \t\n\u00a0\u00ad\ufb00\ufb03\ufb06\u00e9\u6771"))


@pytest.mark.parametrize(
    ("written", "given_to_model"),
    [
        ("\ufb01lter, e\ufb00ect, \ufb02ow", "filter, effect, flow"),
        ("o\ufb03ce, wa\ufb04e, \ufb05and, la\ufb06", "office, waffle, stand, last"),
        ("hy\u00adphen\u00ada\u00adtion", "hyphenation"),
        ("a   b", "a  b"),
        ("a  b\n\nc", "a  b\n\nc"),
        ("a\n\n\n\n\nb", "a\n\nb"),
        ("a\t \u00a0\u3000b", "a\t b"),
        ("a \u00ad \u00ad b", "a  b"),
        ("na\u00efve \u6771\u4eac Stra\u00dfe \u00bd", "na\u00efve \u6771\u4eac Stra\u00dfe \u00bd"),
        ("", ""),
    ],
)
def test_ligatures_are_letters_soft_hyphens_are_left_out_and_long_white_space_is_cut(
    written: str, given_to_model: str
) -> None:
    assert for_model(written, FOLDED) == given_to_model
    assert for_model(written, AS_WRITTEN) == written


def test_ligatures_become_the_letters_that_the_word_index_makes_of_them() -> None:
    for code_point in range(0xFB00, 0xFB07):
        assert for_model(chr(code_point), FOLDED) == unicodedata.normalize("NFKC", chr(code_point))


@pytest.mark.parametrize("written", ["\u00ad", "\u00ad\u00ad\n", " \u00ad "])
def test_a_text_of_which_nothing_would_be_left_is_given_as_it_is(written: str) -> None:
    assert for_model(written, FOLDED) == written


@given(TYPESET)
def test_normalization_is_idempotent_and_keeps_the_order_of_letters(written: str) -> None:
    normalized = for_model(written, CURRENT)
    assert for_model(normalized, CURRENT) == normalized
    letters = unicodedata.normalize("NFKC", written.replace("\u00ad", ""))
    assert "".join(normalized.replace("\u00ad", "").split()) == "".join(letters.split())
