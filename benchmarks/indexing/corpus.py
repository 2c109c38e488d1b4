"""Documents made by rule, so that every run and every machine indexes the same texts.

A word is two to five random letters, which `cl100k_base` cuts into 2.2 tokens on the average, as it does with codes,
names and other languages; sentences have 8 to 20 words, paragraphs 3 to 7 sentences. 3,000 such words make about 44
chunks of 200 tokens. No two documents share a chunk.
"""

import random
import string
from collections.abc import Iterator


def texts(*, documents: int, words: int, first: int = 0) -> Iterator[str]:
    """`documents` texts of `words` words each, from the one with the number `first` on."""
    for number in range(first, first + documents):
        yield _text(random.Random(number), words)


def _text(dice: random.Random, words: int) -> str:
    paragraphs = []
    left = words
    while left > 0:
        sentences = []
        for _ in range(dice.randint(3, 7)):
            length = min(dice.randint(8, 20), left)
            left -= length
            if length:
                sentences.append(" ".join(_word(dice) for _ in range(length)).capitalize() + ".")
        paragraphs.append(" ".join(sentences))
    return "\n\n".join(paragraphs)


def _word(dice: random.Random) -> str:
    return "".join(dice.choices(string.ascii_lowercase, k=dice.randint(2, 5)))
