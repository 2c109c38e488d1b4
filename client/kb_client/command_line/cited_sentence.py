"""Finds the sentence of a passage that an answer cites. Pure."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

_END: Final = re.compile(r"[.!?\u3002\uff01\uff1f]+(?=\s|\[|$)|\n")
_WORD: Final = re.compile(r"\w+")
_LEAST_WORDS: Final = 2
"""Number of words that a sentence must share with the answer to be taken for the cited one."""


def find_cited_sentence(passage: str, answer: str, *, number: int) -> str:
    """Return the sentence of a passage that has the most words of what the answer says before `[number]`.

    If none has two of them, it is the whole passage: an answer in another language shares no words.
    """
    wanted: set[str] = set()
    for said in _sentences_before(answer, f"[{number}]"):
        wanted |= _words(said)
    sentences = [*_sentences(passage)]
    frequency = Counter(word for sentence in sentences for word in _words(sentence))

    def fit(sentence: str) -> float:
        # A word that many sentences have tells little, and so does a short one.
        return sum(len(word) / frequency[word] for word in _words(sentence) & wanted)

    best = max(sentences, key=fit, default=passage)
    return best if len(_words(best) & wanted) >= _LEAST_WORDS else passage


def _sentences_before(answer: str, mark: str) -> Iterator[str]:
    *before, _ = answer.split(mark)
    for text in before:
        # Marks of other passages may stand between the sentence and this one.
        sentences = [each for each in _sentences(text) if len(_words(each)) >= _LEAST_WORDS]
        yield from sentences[-1:]


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(text):
        if sentence := text[start : end.end()].strip():
            yield sentence
        start = end.end()
    if sentence := text[start:].strip():
        yield sentence


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text) if len(word) > 1 or word.isdigit()}
