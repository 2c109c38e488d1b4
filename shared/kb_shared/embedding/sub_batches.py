"""Splits texts into portions that fit into one request."""

from collections.abc import Generator, Iterable
from typing import Final

MAX_TEXTS: Final = 100
MAX_CHARACTERS: Final = 200_000
"""Greatest number of characters of a request: under the 300,000 tokens of a request to OpenAI, even at one token for
each character."""


def sub_batches(
    texts: Iterable[tuple[str, str]], *, max_texts: int = MAX_TEXTS
) -> Generator[dict[str, str], None, None]:
    """Yield `texts`, pairs of key and text, in their order; a text over the limit travels alone.

    Takes no more of `texts` than it needs to know that a portion is complete.
    """
    portion: dict[str, str] = {}
    characters = 0
    for key, text in texts:
        if portion and characters + len(text) > MAX_CHARACTERS:
            yield portion
            portion, characters = {}, 0
        portion[key] = text
        characters += len(text)
        if len(portion) == max_texts:
            yield portion
            portion, characters = {}, 0
    if portion:
        yield portion
