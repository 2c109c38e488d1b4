"""Chooses the sentences of passages that answer a question, or none. Pure, but for the vectors that it is given.

A sentence is near a question if it means the same (the cosine of their vectors), if it has the rare words of the
question, in itself or in what stands above it, and if it gives what is asked for: a name for who, a time for when,
a number for how many. The weights are measured (`benchmarks/extractive_answers`).
"""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import chain
from typing import Final

import numpy as np

from kb_local.model_server.asked_kinds import gives_what_is_asked
from kb_local.model_server.questions import codes, is_same_word, words
from kb_local.model_server.quotable_sentences import QuotableSentence
from kb_local.model_server.text_model import Matrix

EmbedTexts = Callable[[Sequence[str]], Awaitable[Matrix]]
"""Returns one unit vector for each text."""

MOST_SENTENCES: Final = 3
MOST_COMPARED: Final = 48
"""Sentences whose vectors are compared with that of the question: those nearest to it by their words."""

LEAST_NEARNESS: Final = 0.52
"""Nearness below which no sentence answers."""
LEAST_NEARNESS_BY_WORDS: Final = 0.25
"""The same without vectors."""
LEAST_SHARE: Final = 0.85
"""Part of the nearness of the best sentence that another one must have to be quoted."""

_MEANING: Final = 0.6
_OWN_WORDS: Final = 0.3
_WORDS_WITH_ABOVE: Final = 0.3
_GIVES: Final = 0.08
_LACKS: Final = 0.12
_HAS_CODE: Final = 0.15
_LACKS_CODE: Final = 0.3
_LIKE_QUESTION: Final = 1.1
"""Weight of the likeness to the question that a sentence answers: that of two questions says more."""
_IS_CUT: Final = 0.12
_IS_SHORT: Final = 0.15
_LEAST_WORDS: Final = 4


async def nearest_sentences(
    question: str, sentences: Sequence[QuotableSentence], embed: EmbedTexts | None
) -> list[QuotableSentence]:
    """Return the sentence that answers best and those behind it that are nearly as near, in order; or none.

    Args:
        question: Question, with those before it that it refers to.
        sentences: Sentences of all passages.
        embed: Model that compares meanings; None: words alone decide.
    """
    # A document that a question is about can be long.
    by_words = await asyncio.to_thread(words_nearness, question, sentences)
    compared = sorted(range(len(sentences)), key=lambda each: -by_words[each])[:MOST_COMPARED]
    nearness = {each: by_words[each] for each in compared}
    if embed is not None and compared:
        for each, meaning in zip(
            compared, await _meanings(question, [sentences[n] for n in compared], embed), strict=True
        ):
            nearness[each] += _MEANING * meaning
    return choose(sentences, nearness, least=LEAST_NEARNESS_BY_WORDS if embed is None else LEAST_NEARNESS)


def choose(
    sentences: Sequence[QuotableSentence], nearness: dict[int, float], *, least: float
) -> list[QuotableSentence]:
    """Return the nearest sentence first and at most two behind it; none if it is less near than `least`."""
    if not nearness:
        return []
    best = max(nearness, key=lambda each: (nearness[each], -each))
    if nearness[best] < least:
        return []
    wanted = max(least, LEAST_SHARE * nearness[best])
    further = [each for each in nearness if each > best and nearness[each] >= wanted]
    nearest = sorted(further, key=lambda each: -nearness[each])[: MOST_SENTENCES - 1]
    return [sentences[each] for each in (best, *sorted(nearest))]


def words_nearness(question: str, sentences: Sequence[QuotableSentence]) -> list[float]:
    """Return the part of the nearness that needs no vectors, for each sentence."""
    asked = list(dict.fromkeys(words(question)))
    # The first answer below a question needs not repeat it.
    own = [set(words(f"{each.asked} {each.text}")) for each in sentences]
    with_above = [mine | set(words(each.about)) for mine, each in zip(own, sentences, strict=True)]
    same = _same_words(asked, chain.from_iterable(with_above))
    weights = _weights(asked, with_above, same)
    gives = gives_what_is_asked(question)
    return [
        _OWN_WORDS * _coverage(mine, weights, same)
        + _WORDS_WITH_ABOVE * _coverage(all_words, weights, same)
        + {None: 0.0, True: _GIVES, False: -_LACKS}[gives(each.text)]
        + of_codes
        - _IS_CUT * (not each.is_whole)
        - _IS_SHORT * (len(each.text.split()) < _LEAST_WORDS)
        for each, mine, all_words, of_codes in zip(
            sentences, own, with_above, _code_nearness(question, sentences), strict=True
        )
    ]


def _same_words(asked: Sequence[str], known: Iterable[str]) -> dict[str, set[str]]:
    """Return for each word of a question the words of the passages that are the same one."""
    distinct = set(known)
    return {word: {each for each in distinct if is_same_word(word, each)} for word in asked}


def _weights(asked: Sequence[str], texts: Sequence[set[str]], same: dict[str, set[str]]) -> dict[str, float]:
    """Return the share of each word of the question: the rarer it is in the passages, the greater."""
    seen_in = Counter(word for text in texts for word in asked if not text.isdisjoint(same[word]))
    weights = {word: math.log(1 + (len(texts) + 1) / (seen_in[word] + 0.5)) for word in asked}
    total = sum(weights.values())
    return {word: weight / total for word, weight in weights.items()}


def _coverage(text: set[str], weights: dict[str, float], same: dict[str, set[str]]) -> float:
    return sum(weight for word, weight in weights.items() if not text.isdisjoint(same[word]))


def _code_nearness(question: str, sentences: Sequence[QuotableSentence]) -> list[float]:
    """Return what it counts that a sentence has the codes of the question, or that not even the text above it has."""
    wanted = codes(question)
    if not wanted:
        return [0.0] * len(sentences)
    has = [all(code in each.text.lower() for code in wanted) for each in sentences]
    above = [all(code in f"{each.about} {each.text}".lower() for code in wanted) for each in sentences]
    # The name of a program that each sentence has says nothing.
    reward = _HAS_CODE * (1 - sum(has) / max(1, len(has)))
    return [reward if mine else 0.0 if known else -_LACKS_CODE for mine, known in zip(has, above, strict=True)]


async def _meanings(question: str, sentences: Sequence[QuotableSentence], embed: EmbedTexts) -> list[float]:
    """Return how near the meaning of each sentence, read below its heading, is to that of the question."""
    above = list(dict.fromkeys(each.asked for each in sentences if each.asked))
    read = [f"{each.about}: {each.text}" if each.about else each.text for each in sentences]
    vectors = await embed([question, *read, *above])
    cosines = [float(each) for each in np.asarray(vectors[1:]) @ vectors[0]]
    of_question = dict(zip(above, cosines[len(read) :], strict=True))
    return [max(cosine, of_question.get(each.asked, cosine)) for each, cosine in zip(sentences, cosines, strict=False)]
