"""The custom analyzers of knowledge bases: they fold a text, and then make the words of the language's own analyzer."""

import string
import unicodedata
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_contracts.api.knowledge_bases import TextAnalyzer
from kb_local.search_node.analyzers import ANALYZERS, Analyzer, Terms
from kb_local.search_node.icu_normalize import icu_normalize
from kb_local.search_node.text_definitions import StringField, parse_text_definition
from kb_shared.mongo.text_analyzers import folding

NAMES = get_args(TextAnalyzer)
# What these languages are written with; nothing that NFKC_Casefold changes, but capitals.
LATIN = "äöüéèêçñãõåøæőűăâîșțëïàÄÉ"
CYRILLIC = "".join(map(chr, range(0x410, 0x450)))
ARMENIAN = "".join(map(chr, range(0x561, 0x580)))
OTHERS = " \n.,-_0123456789\u6771\u4eac\u30bf\u30ef\ud55c\uad6d"
TEXTS = st.text(alphabet=string.ascii_letters + LATIN + CYRILLIC + ARMENIAN + OTHERS)
WORDS = st.lists(
    st.sampled_from(["The", "it's", "Bob\u2019s", "generalizations", "was", "running", "of"])
    | st.sampled_from(["Häuser", "niños", "corriendo", "nationales"])
).map(" ".join)


def custom(name: str) -> Analyzer:
    definition: dict[str, Any] = folding(name)
    source = {"analyzer": definition["name"], "analyzers": [definition], "mappings": {"dynamic": True}}
    return parse_text_definition(source, where="definition").index_analyzer(StringField())


CUSTOM = {name: custom(name) for name in NAMES}


def terms(name: str, text: str) -> Terms:
    return CUSTOM[name].terms(text)


@given(TEXTS | WORDS)
def test_texts_without_anything_to_fold_have_the_words_of_the_analyzer_of_their_language(text: str) -> None:
    for name in NAMES:
        assert terms(name, text) == ANALYZERS[name].terms(text), name


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("typeset", "plain"),
    [
        (
            "\ufb01lter e\ufb00ect \ufb02ow o\ufb03ce wa\ufb04e la\ufb05 la\ufb06",
            "filter effect flow office waffle last last",
        ),
        ("co\u00adope\u00adration", "cooperation"),
        ("zero\u200bwidth\u2060 jo\u200dined", "zerowidth joined"),
        ("\uff26\uff35\uff2c\uff2c width", "full width"),
        ("cafe\u0301 CAF\u00c9", "caf\u00e9 caf\u00e9"),
    ],
)
def test_a_text_has_the_same_words_however_it_is_typeset(name: str, typeset: str, plain: str) -> None:
    assert terms(name, typeset) == terms(name, plain)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("lucene.french", "L\u2019avion qu'il l'Homme aujourd'hui", ["avion", "il", "homm", "aujourd'hui"]),
        ("lucene.italian", "dell'acqua un\u2019altra", ["acqua", "altra"]),
        ("lucene.catalan", "l'aigua d'aqu\u00ed", ["aigu", "aqu"]),
        ("lucene.english", "the Filter's oscillators", [None, "filter", "oscil"]),
        ("lucene.german", "Stra\u00dfe STRASSE", ["strass", "strass"]),
    ],
)
def test_an_article_before_an_apostrophe_is_no_part_of_its_word(name: str, text: str, expected: Terms) -> None:
    assert terms(name, text) == expected


@given(st.text())
def test_folding_follows_nfkc_casefold(text: str) -> None:
    folded = icu_normalize(text)
    assert folded == icu_normalize(folded)
    assert folded == icu_normalize(unicodedata.normalize("NFD", text))
    assert icu_normalize(text.upper()) == icu_normalize(text.upper().casefold())
    assert not {"\u00ad", "\u200b", "\ufeff", "\ufe0f"} & set(folded)


@pytest.mark.parametrize(
    ("character", "folded"),
    [
        ("\ufb03", "ffi"),
        ("\u00df", "ss"),
        ("\u1e9e", "ss"),
        ("\u03c2", "\u03c3"),
        ("\u0130", "i\u0307"),
        ("\u212b", "\u00e5"),
        ("\u00bd", "1\u20442"),
        ("\u2122", "tm"),
        ("\uff71", "\u30a2"),
        ("\u3164", ""),
        ("\U000e0041", ""),
        ("\uac00", "\uac00"),
        ("\u00a0", " "),
    ],
)
def test_characters_fold_as_in_the_tables_of_unicode(character: str, folded: str) -> None:
    assert icu_normalize(character) == folded
