"""Porter's stemmer for English (1980), with its author's two later departures, as Lucene's PorterStemFilter has it."""

import re

_TURNS = re.compile("v+c+")

_STEP_2 = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "logi": "log",
}
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"),
    *("ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)
_LONGEST_SUFFIX = 7
_SHORTEST_STEMMED = 3


def stem(word: str) -> str:
    """Return the stem of a lower-case word."""
    if len(word) < _SHORTEST_STEMMED:
        return word
    word = _without_ed_or_ing(_without_plural(word))
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    word = _replaced(word, _STEP_2)
    word = _replaced(word, _STEP_3)
    return _without_last_e(_without_last_suffix(word))


def _shape(word: str) -> str:
    """Return `c` or `v` for each letter: a y is a vowel after a consonant only."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Return how often vowels are followed by consonants."""
    return len(_TURNS.findall(_shape(word)))


def _ends_double(word: str) -> bool:
    return word[-1:] == word[-2:-1] and _shape(word).endswith("c")


def _ends_short(word: str) -> bool:
    """Return whether a word ends like `hop`: consonant, vowel, consonant, and the last is none of w, x, y."""
    return _shape(word).endswith("cvc") and not word.endswith(("w", "x", "y"))


def _without_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_ed_or_ing(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        rest = word.removesuffix(suffix)
        if rest != word and "v" in _shape(rest):
            return _repaired(rest)
    return word


def _repaired(rest: str) -> str:
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if _ends_double(rest) and not rest.endswith(("l", "s", "z")):
        return rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _ends_short(rest) else rest


def _replaced(word: str, suffixes: dict[str, str]) -> str:
    """Replace the longest suffix of the list, if enough of a word is before it."""
    for length in range(_LONGEST_SUFFIX, 2, -1):
        replacement = suffixes.get(word[-length:])
        if replacement is not None and len(word) >= length:
            rest = word[:-length]
            return rest + replacement if _measure(rest) > 0 else word
    return word


def _without_last_suffix(word: str) -> str:
    suffix = max((one for one in _STEP_4 if word.endswith(one)), key=len, default="")
    rest = word.removesuffix(suffix)
    if not suffix or (suffix == "ion" and not rest.endswith(("s", "t"))):
        return word
    return rest if _measure(rest) > 1 else word


def _without_last_e(word: str) -> str:
    if word.endswith("e"):
        rest = word[:-1]
        if _measure(rest) > 1 or (_measure(rest) == 1 and not _ends_short(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word
