"""Tells values that stand for a credential, or that only look like one, from credentials. Pure."""

import re
from typing import Final

_STAND_IN: Final = re.compile(
    r"example|placeholder|your|change[_-]?me|change[_-]?it|redacted|dummy|sample|insert|replace|fixme|todo|foobar|xxx|\*\*\*|\.\.\.|…|<|>|\$\{|\{\{"
    r"|^[$%@&]|^\W*(?:my[_-]?)?(?:password|passwd|pass|passwort|pwd|pw|secret|token|key|api[_-]?key|credentials?|value|string)\d?\W*$"
    r"|^(?:os|process|env|settings|config|self|secrets|vars|arn|projects|vault|steps|data|var|local|module)[.:/\[]|getenv|environ",
    re.IGNORECASE,
)
_ONE_CHARACTER: Final = re.compile(r"(.)\1*")
_WORD: Final = re.compile(
    # Words as prose or code writes them, and numbers of years, sizes and versions.
    r"[a-z]*|[A-Z]?[a-z]+(?:[A-Z][a-z]+)*|[A-Z]+|\d{1,5}|"
    # Terms with a number in them.
    r"(?i:sha|aes|md|argon|utf|base|tls|ssl|oauth|rfc|iso|fips|nist|ipv|int|uint|float|varchar|char|string|pbkdf|cp|x|v|h|p|k|s|step|level|rsa|ed|ec|"
    r"hs|rs|es|ps|cl|min|max|part|page|section|chapter|version|type|bcrypt|top|day|week|round|cost)\d{1,5}[a-z]{0,3}|"
    # Numbers with a unit.
    r"\d{1,5}(?i:bits?|chars?|characters|letters?|digits?|symbols?|signs?|words?|days?|weeks?|months?|years?|quarters?|hours?|hrs?"
    r"|min|minutes?|sec|seconds?|times?|attempts?|tries|rounds?|ms|st|nd|rd|th|kb|mb|gb)|\d{1,3}(?i:[dhmskx])"
)
_PROPER_WORD: Final = re.compile(r"[A-Za-z]?[a-z]{2,}|[A-Z]{3,}")
_FEWEST_WORDS_OF_A_NAME: Final = 3
_LONGEST_CODES_OF_A_NAME: Final = 6
_SEPARATORS: Final = re.compile(r"[-_./:+~=]+")
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def is_placeholder(value: str) -> bool:
    """Say whether `value` stands for a credential, as in `<token>`, `${TOKEN}`, `your-api-key` or `xxxxxxxx`."""
    return _STAND_IN.search(value) is not None or _ONE_CHARACTER.fullmatch(value) is not None


def is_wordlike(value: str) -> bool:
    """Say whether `value` consists of words, numbers and terms, as names, paths and versions do, or is a UUID."""
    return _UUID.fullmatch(value) is not None or all(map(_WORD.fullmatch, _SEPARATORS.split(value)))


def is_name(value: str) -> bool:
    """Say whether `value` consists of words and short codes, as names of things do: `locker-B7-north-wing`."""
    parts = _SEPARATORS.split(value)
    codes = sum(len(part) for part in parts if not _WORD.fullmatch(part))
    words = sum(1 for part in parts if _PROPER_WORD.fullmatch(part))
    return words >= _FEWEST_WORDS_OF_A_NAME and codes <= _LONGEST_CODES_OF_A_NAME
