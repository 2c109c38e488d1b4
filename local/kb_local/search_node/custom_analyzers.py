"""Custom analyzers of a search index: from their definitions, checked by Atlas's rules, to the terms of a text.

There are the parts that the services use, and the simplest of the others.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from kb_local.search_node.analyzers import (
    SNOWBALL_LANGUAGES,
    Analyzer,
    FilteringAnalyzer,
    SplittingAnalyzer,
    stemmer,
    without_possessive,
)
from kb_local.search_node.arguments import Arguments
from kb_local.search_node.errors import not_implemented
from kb_local.search_node.icu_normalize import icu_normalize
from kb_local.search_node.porter import stem
from kb_local.search_node.word_segmentation import LONGEST_WORD, split_words

RESERVED_PREFIXES = ("lucene.", "builtin.", "mongodb.")
STEMMER_NAMES = ("english", "porter", *SNOWBALL_LANGUAGES)

CharFilter = Callable[[str], str]
Tokenizer = Callable[[str], list[str]]
TokenFilter = Callable[[str], str | None]


def custom_analyzers(definition: Arguments) -> dict[str, Analyzer]:
    """Return the analyzers that a definition of an index has of its own, by name."""
    found: dict[str, Analyzer] = {}
    if not definition.given("analyzers"):
        return found
    for where, source in definition.one_or_many("analyzers"):
        analyzer = definition.element(where, source)
        name = analyzer.required("name")
        if not isinstance(name, str) or not name or name.startswith(RESERVED_PREFIXES):
            raise analyzer.refusal(f"must be a string that starts with none of {', '.join(RESERVED_PREFIXES)}", "name")
        if name in found:
            raise definition.refusal(f'has more than one analyzer "{name}"', "analyzers")
        found[name] = _analyzer(analyzer)
        analyzer.close()
    return found


def _analyzer(source: Arguments) -> Analyzer:
    before = [_char_filter(one) for one in _parts(source, "charFilters")]
    source.required("tokenizer")
    split = _tokenizer(source.child("tokenizer"))
    after = [_token_filter(one) for one in _parts(source, "tokenFilters")]
    if after == [str.lower]:
        # A whole text is made lowercase much faster than its words are.
        return SplittingAnalyzer(split, before=[*before, str.lower])
    return FilteringAnalyzer(split, partial(_filtered, after), before=before)


def _parts(source: Arguments, name: str) -> list[Arguments]:
    if not source.given(name):
        return []
    return [source.element(where, one) for where, one in source.one_or_many(name)]


def _filtered(filters: Sequence[TokenFilter], word: str) -> str | None:
    term: str | None = word
    for token_filter in filters:
        if term is None:
            return None
        term = token_filter(term)
    return term


def _char_filter(source: Arguments) -> CharFilter:
    of_type = source.required("type")
    if of_type != "icuNormalize":
        raise not_implemented(f"the character filter {of_type}")
    source.close()
    return icu_normalize


def _tokenizer(source: Arguments) -> Tokenizer:
    of_type = source.required("type")
    if of_type == "standard" and source.integer("maxTokenLength", default=LONGEST_WORD) == LONGEST_WORD:
        split: Tokenizer = split_words
    elif of_type == "whitespace" and source.integer("maxTokenLength", default=LONGEST_WORD) == LONGEST_WORD:
        split = str.split
    elif of_type == "keyword":
        split = _whole
    else:
        raise not_implemented(f"the tokenizer {of_type} with such options")
    source.close()
    return split


def _whole(text: str) -> list[str]:
    return [text]


def _token_filter(source: Arguments) -> TokenFilter:
    of_type = source.required("type")
    make = _TOKEN_FILTERS.get(of_type) if isinstance(of_type, str) else None
    if make is None:
        raise not_implemented(f"the token filter {of_type}")
    token_filter = make(source)
    source.close()
    return token_filter


def _stop_words(source: Arguments) -> TokenFilter:
    ignores_case = source.boolean("ignoreCase", default=True)
    left_out = {word.lower() if ignores_case else word for word in source.texts("tokens")}
    return lambda term: None if (term.lower() if ignores_case else term) in left_out else term


def _snowball(source: Arguments) -> TokenFilter:
    name = source.text("stemmerName")
    if name not in STEMMER_NAMES:
        raise not_implemented(f"the Snowball stemmer {name}")
    return stemmer(name)


def _regex(source: Arguments) -> TokenFilter:
    """Translate a pattern of Java: most are valid in Python, but references to groups differ."""
    pattern, replacement = source.required("pattern"), source.required("replacement")
    matches = source.choice("matches", ("all", "first"), default="")
    if not isinstance(pattern, str) or not isinstance(replacement, str) or not matches:
        raise source.refusal('needs "pattern", "replacement" and "matches"')
    if "$" in replacement or "\\" in replacement:
        raise not_implemented("a token filter regex that refers to groups")
    try:
        compiled = re.compile(pattern)
    except re.error:
        raise source.refusal("must be a valid regular expression", "pattern") from None
    return lambda term: compiled.sub(replacement, term, count=1 if matches == "first" else 0)


_TOKEN_FILTERS: Mapping[str, Callable[[Arguments], TokenFilter]] = {
    "lowercase": lambda _: str.lower,
    "englishPossessive": lambda _: without_possessive,
    "porterStemming": lambda _: stem,
    "stopword": _stop_words,
    "snowballStemming": _snowball,
    "regex": _regex,
}
