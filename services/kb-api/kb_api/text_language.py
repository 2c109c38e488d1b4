"""Chooses the text analyzer that fits the language of texts. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kb_contracts.api.knowledge_bases import TextAnalyzer

SAMPLED_CHARACTERS: Final = 2_000
"""Number of characters of a text from which its language is detected."""
SAMPLED_DOCUMENTS: Final = 20
_LEAST_SHARE: Final = 0.7
"""Share of the texts that a language has at least: an analyzer that stems it harms the other texts."""
STANDARD: Final[TextAnalyzer] = "lucene.standard"

_ANALYZERS: Final[dict[str, TextAnalyzer]] = {
    "ca": "lucene.catalan",
    "da": "lucene.danish",
    "de": "lucene.german",
    "en": "lucene.english",
    "es": "lucene.spanish",
    "eu": "lucene.basque",
    "fi": "lucene.finnish",
    "fr": "lucene.french",
    "hu": "lucene.hungarian",
    "hy": "lucene.armenian",
    "it": "lucene.italian",
    "nl": "lucene.dutch",
    "nn": "lucene.norwegian",
    "no": "lucene.norwegian",
    "pt": "lucene.portuguese",
    "ro": "lucene.romanian",
    "ru": "lucene.russian",
    "sv": "lucene.swedish",
}
"""Analyzer of each language that has one, by its ISO 639-1 code."""


@dataclass(frozen=True, slots=True)
class TextLanguage:
    """Language of a sample of texts."""

    code: str | None
    """ISO 639-1 code; None if no language is clearly the most frequent."""
    share: float
    """Share of `code` in the texts whose language is known; 0 without a code."""
    known: int
    """Number of texts whose language is known."""

    @property
    def analyzer(self) -> TextAnalyzer:
        """Return the analyzer that fits."""
        return _ANALYZERS.get(self.code or "", STANDARD)


def main_language(detected: Sequence[str | None]) -> TextLanguage:
    """Return the language of texts, given that of each one."""
    known = [code for code in detected if code is not None]
    if known:
        code, count = Counter(known).most_common(1)[0]
        if count >= _LEAST_SHARE * len(known):
            return TextLanguage(code, count / len(known), len(known))
    return TextLanguage(None, 0.0, len(known))


def analyzer_warning(analyzer: str, language: str | None) -> str | None:
    """Return a warning if `analyzer` does not fit texts in `language`; None if it does, or if nothing fits better."""
    fitting = _ANALYZERS.get(language or "")
    if language is None or analyzer == fitting or (fitting is None and analyzer == STANDARD):
        return None
    better = fitting or STANDARD
    why = (
        "does not find other forms of a word"
        if analyzer == STANDARD
        else "takes words for forms of words of another language"
    )
    return (
        f"The language of the documents is `{language}`, for which text_analyzer {analyzer} {why}. It can't change: "
        f"create another knowledge base with text_analyzer {better}, and delete this one when that is active."
    )
