from typing import get_args

import pytest

from kb_api.text_language import _ANALYZERS, STANDARD, analyzer_warning, main_language
from kb_contracts.api.knowledge_bases import TextAnalyzer


def test_every_analyzer_belongs_to_a_language() -> None:
    assert {*_ANALYZERS.values(), STANDARD} == set(get_args(TextAnalyzer))


@pytest.mark.parametrize(
    ("detected", "code", "analyzer"),
    [
        (["de", "de", None, "de"], "de", "lucene.german"),
        (["en", "de"], None, "lucene.standard"),
        (["ja", "ja"], "ja", "lucene.standard"),
        ([None], None, "lucene.standard"),
        ([], None, "lucene.standard"),
    ],
)
def test_the_analyzer_is_that_of_the_language_of_most_texts(
    detected: list[str | None], code: str | None, analyzer: str
) -> None:
    language = main_language(detected)
    assert (language.code, language.analyzer) == (code, analyzer)


@pytest.mark.parametrize(
    ("analyzer", "language", "better"),
    [
        ("lucene.standard", "en", "lucene.english"),
        ("lucene.german", "en", "lucene.english"),
        ("lucene.german", "ja", "lucene.standard"),
        ("lucene.english", "en", None),
        ("lucene.standard", "ja", None),
        ("lucene.standard", None, None),
        ("lucene.german", None, None),
    ],
)
def test_an_analyzer_that_does_not_fit_is_warned_of_with_the_one_that_does(
    analyzer: str, language: str | None, better: str | None
) -> None:
    warning = analyzer_warning(analyzer, language)
    assert warning is None if better is None else warning is not None and f"text_analyzer {better}," in warning
