"""Guesses the encoding of a text that is neither UTF-8 nor says what it is, by its letters."""

import unicodedata
from typing import Final

_WESTERN: Final = "cp1252"
_CANDIDATES: Final = (
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "cp874"),
    *("koi8-r", "koi8-u", "iso8859-2", "iso8859-5", "iso8859-7"),
    *("gb18030", "big5hkscs", "cp932", "euc_jis_2004", "cp949"),
    *("cp437", "cp850", "cp852", "cp855", "cp866", "mac-roman", "mac-cyrillic", "mac-latin2"),
)
"""Encodings that files of people are in. With rarer ones, a sign or two are taken for letters of a rare script."""
_USUAL_IN_THE_WEST: Final = frozenset(
    "äöüßÄÖÜéèêàâçëîïôùûœŒáíóúñÁÉÍÓÚÑåæøÅÆØãõìòÈÀÇ¿¡€—„“”…°²³µ§©®½¼¾±«»·•™£¥¢†‰"
    "\u00d7\u2013\u2018\u2019\u201a\u00a0\u00ad"
)
_FEW: Final = 6
_WITHIN_WORDS: Final = frozenset("·\u2018\u2019\u2010\u2011\u00ad")
_SAMPLE_BYTES: Final = 20_000


def guess_encoding(data: bytes) -> str:
    """Return the codec in which a text most probably is written.

    A detector knows scripts and languages by their letters. A few signs and accents in a text that is ASCII otherwise
    tell it nothing: they are taken as those of Windows in the West, if that makes words of them.
    """
    from chardet import detect

    sample = b"\n".join(line for line in data.splitlines() if not line.isascii())[:_SAMPLE_BYTES]
    guess = detect(sample, include_encodings=_CANDIDATES, compat_names=False, empty_input_encoding=_WESTERN)
    found = guess["encoding"] or _WESTERN
    try:
        western = sample.decode(_WESTERN)
    except UnicodeDecodeError:
        return found
    beyond_ascii = [character for character in western if not character.isascii()]
    if not _USUAL_IN_THE_WEST.issuperset(beyond_ascii) or not _has_whole_words(western):
        return found
    is_sparse = len(beyond_ascii) < _FEW and sum(map(str.isalpha, beyond_ascii)) * 2 <= sum(map(str.isalpha, western))
    return _WESTERN if is_sparse or not _has_whole_words(sample.decode(found, "replace")) else found


def _has_whole_words(text: str) -> bool:
    """Return whether no sign stands within a word, and no capital letter with an accent after a small one."""
    triples = zip(" " + text, text, text[1:] + " ", strict=False)
    return not any(_breaks_word(*triple) for triple in triples if not triple[1].isascii())


def _breaks_word(before: str, character: str, after: str) -> bool:
    if character.isalpha():
        return character.isupper() and before.islower()
    if before.isalpha() and after.isalpha():
        return character not in _WITHIN_WORDS
    return unicodedata.category(character) in ("Cc", "Cn", "Co", "Sk") or character in "\ufffd╡║╗╝╚╔╩╦╠═╬░▒▓│┤"
