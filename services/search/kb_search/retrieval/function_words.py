"""Leaves out the words of a question that every text has, such as `what is the`. Pure.

BM25 gives them little weight, but each makes a match of the text index: a question about nothing would find any text
with `what`. Lucene's English analyzer drops some of them, the others none. Words that mean a thing in another of these
languages are not in the list: `die`, `or` (gold), `man`, `pour`, `will`.
"""

import re
from typing import Final

from kb_shared.mongo.text_analyzers import ENGLISH_STOP_WORDS

_LANGUAGES: Final = """
    what which who whom whose when where why how do does did has have had been being am i you he she we me my your
    our his her its them from about should would could there's what's who's where's how's wie wo wer wen wem wann
    warum wieso weshalb welche welcher welches welchen welchem der das dem des ein eine einen einem einer eines ist
    sind wird werden wurde habe haben und oder ich er sie wir ihr mit von zum zur im auf f\u00fcr bei nach aus
    \u00fcber gibt quel quelle quels quelles qui que quoi quand o\u00f9 pourquoi combien le les un une et ou est
    sont je tu il elle nous vous ils elles dans avec sur ce cette ces au sa leur qu'est-ce qu\u00e9 cu\u00e1l
    cu\u00e1les qui\u00e9n qui\u00e9nes cu\u00e1ndo d\u00f3nde c\u00f3mo cu\u00e1nto cu\u00e1ntos cuando donde el la
    los las una unos unas de y es est\u00e1 por para del al lo che cosa quale quali chi quando perch\u00e9 quanto
    quanti gli della dello degli delle nel nella da \u00e8 sono qual quais quem onde quantos os uma do das no na nos
    \u00e9 s\u00e3o ao wat wie welke wanneer waar waarom het een zijn voor op
"""
_CONTENT_ELSEWHERE: Final = frozenset({"an", "no", "not", "or", "such", "will"})
"""English stop words that are a thing or an emphasis in another language, or in English."""
FUNCTION_WORDS: Final = (frozenset(_LANGUAGES.split()) | frozenset(ENGLISH_STOP_WORDS)) - _CONTENT_ELSEWHERE
_TOKEN: Final = re.compile(r"\S+")
_AROUND: Final = "\"'`()[]{}<>.,;:!?\u00a1\u00bf\u201c\u201d\u2018\u2019\u00ab\u00bb"


def leave_out_function_words(query: str) -> str:
    """Return the query without its function words; as it is if it has no others.

    A word in capitals is kept, as long as not all are: `IT` and `WHO` are names.
    """
    keeps_capitals = not query.isupper()
    tokens = _TOKEN.findall(query)
    kept = [token for token in tokens if not _is_function_word(token, keeps_capitals=keeps_capitals)]
    return query if len(kept) in (0, len(tokens)) else " ".join(kept)


def has_content(query: str) -> bool:
    """Return whether a query has other words than function words; `what is it about` has none."""
    keeps_capitals = not query.isupper()
    return any(not _is_function_word(token, keeps_capitals=keeps_capitals) for token in _TOKEN.findall(query))


def _is_function_word(token: str, *, keeps_capitals: bool) -> bool:
    word = token.strip(_AROUND)
    if not word:
        return False
    return word.casefold() in FUNCTION_WORDS and not (keeps_capitals and word.isupper() and word != "I")
