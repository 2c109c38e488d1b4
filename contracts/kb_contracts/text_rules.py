"""Rules for texts that are stored."""

from kb_contracts.reasons.sentences import HALF_A_PAIR


def storable(text: str) -> str:
    """Return `text`. Raises ValueError if it has what neither UTF-8 nor a search index can hold.

    As a validator it stands behind limits of length: they count characters of strings, and items of all else.
    """
    if "\x00" in text:
        raise ValueError("must not contain NUL characters: remove them")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(HALF_A_PAIR) from None
    return text


def visible(text: str) -> str:
    """Return `text`. Raises ValueError if it has nothing but white space."""
    if not text.strip():
        raise ValueError("must contain at least one visible character")
    return text
