"""Joins words that were hyphenated at line ends."""

import re
from collections.abc import Iterable
from typing import Final

_MARK: Final = re.compile(r"(?P<before>[^\W\d_]+)(?:[\x02\ufffe]|[-\u2010\u00ad]\n)(?P<after>[^\W\d_]+)")
"""A hyphen at the end of a line. pdfium writes most of them as U+0002 or U+FFFE, without the line end."""
_OTHER_MARK: Final = re.compile(r"[\x02\ufffe]")
_WORD: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)?")
_SHORTEST_WORD_OF_COMPOUND: Final = 4


def join_hyphenated(pages: Iterable[str]) -> list[str]:
    """Join the halves of words on each page, and keep the hyphens of compounds as far as the document shows them."""
    texts = list(pages)
    words = {word.lower() for text in texts for word in _WORD.findall(_MARK.sub(" ", text))}

    def join(found: re.Match[str]) -> str:
        before, after = found["before"], found["after"]
        return f"{before}-{after}" if _is_compound(before, after, words) else before + after

    return [_OTHER_MARK.sub("-", _MARK.sub(join, text)).replace("\u00ad", "") for text in texts]


def _is_compound(before: str, after: str, words: set[str]) -> bool:
    """Decide whether a word has a hyphen of its own, such as `self-made`, `X-Ray`, `XML-based`, `user-supplied`."""
    if after[0].isupper() or before.isupper() or f"{before}-{after}".lower() in words:
        return True
    halves = (before.lower(), after.lower())
    return (
        "".join(halves) not in words
        and min(map(len, halves)) >= _SHORTEST_WORD_OF_COMPOUND
        and all(half in words for half in halves)
    )
