"""Analyzers for the texts of a knowledge base: those of Atlas Search, as they are and with folding before them.

Atlas's own analyzers take a text as it is typeset: `ﬁlter`, written with a ligature, is another word than `filter`. A
custom analyzer folds first, by NFKC_Casefold, and then does what the analyzer of the language does, as far as Atlas
offers the parts (ADR 21): the English one can be put together from its own parts, the others get Snowball's stemmer for
their language and keep stop words.
"""

from typing import Final

from kb_shared.mongo.database import Row

_PREFIX: Final = "lucene."
_LOWERCASE: Final[Row] = {"type": "lowercase"}
# Those that Lucene's English analyzer leaves out.
ENGLISH_STOP_WORDS: Final = (
    *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of"),
    *(
        "on",
        "or",
        "such",
        "that",
        "the",
        "their",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "will",
        "with",
    ),
)
_ENGLISH: Final[list[Row]] = [
    {"type": "englishPossessive"},
    _LOWERCASE,
    {"type": "stopword", "tokens": list(ENGLISH_STOP_WORDS)},
    {"type": "porterStemming"},
]
ELISIONS: Final = {
    "catalan": "d|l|m|n|s|t",
    "french": "c|d|j|jusqu|l|lorsqu|m|n|puisqu|qu|quoiqu|s|t",
    "italian": "agl|all|c|d|dagl|dall|degl|dell|gl|l|m|negl|nell|pell|s|sugl|sull|t|un|v",
}
"""Words that an apostrophe joins to the next word, where Lucene's analyzer of the language splits them."""


def folding(analyzer: str) -> Row:
    """Return the definition of the custom analyzer that folds a text and then splits and stems as `analyzer` does."""
    language = analyzer.removeprefix(_PREFIX)
    return {
        "name": f"folding_{language}",
        "charFilters": [{"type": "icuNormalize"}],
        "tokenizer": {"type": "standard"},
        "tokenFilters": _token_filters(language),
    }


def _token_filters(language: str) -> list[Row]:
    if language == "standard":
        return [_LOWERCASE]
    if language == "english":
        return _ENGLISH
    stemming = {"type": "snowballStemming", "stemmerName": language}
    if language in ELISIONS:
        elision = f"^(?:{ELISIONS[language]})['\u2019]"
        parted = {"type": "regex", "pattern": elision, "replacement": "", "matches": "first"}
        return [_LOWERCASE, parted, stemming]
    return [_LOWERCASE, stemming]
