from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_local.model_server.nearest_sentences import (
    LEAST_NEARNESS,
    MOST_COMPARED,
    choose,
    nearest_sentences,
    words_nearness,
)
from kb_local.model_server.quotable_sentences import Passage, QuotableSentence, read_sentences
from kb_local.model_server.text_model import Matrix


class Meanings:
    """Stands in for a model: the meaning of a text is a word that it contains."""

    def __init__(self, *meanings: str) -> None:
        self._meanings = meanings
        self.count = 0

    async def embed(self, texts: Sequence[str]) -> Matrix:
        self.count += len(texts)
        found = [[float(meaning in text) for meaning in self._meanings] + [0.01] for text in texts]
        vectors = np.array(found, dtype=np.float32)
        unit: Matrix = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


def read(*texts: str, source: str = "") -> list[QuotableSentence]:
    return read_sentences([Passage(f"[{number}]", text, source) for number, text in enumerate(texts, 1)])


async def by_words(question: str, *texts: str) -> list[str]:
    return [each.text for each in await nearest_sentences(question, read(*texts), None)]


async def test_a_sentence_that_means_the_same_in_other_words_answers() -> None:
    model = Meanings("vacation day", "x")
    found = await nearest_sentences(
        "What about a vacation day?", read("Bread is baked.", "Free time is a vacation day too."), model.embed
    )
    assert [each.citation for each in found] == ["[2]"]


async def test_meanings_alone_that_are_far_do_not_answer() -> None:
    model = Meanings("vacation", "bread")
    assert not await nearest_sentences("How long is a vacation?", read("All bread is baked in an oven."), model.embed)


async def test_of_many_sentences_only_those_nearest_by_words_are_compared() -> None:
    model = Meanings("fence")
    many = [f"Garden number {number} is green." for number in range(200)]
    found = await nearest_sentences("What is a fence?", read(*many, "A fence is a write."), model.embed)
    assert found[0].text == "A fence is a write."
    assert model.count <= 1 + MOST_COMPARED


async def test_the_heading_above_a_sentence_counts() -> None:
    leave = (
        "# Parental leave\n\nIt must be announced seven weeks before.\n\n# Sick leave\n\nIt must be announced at once."
    )
    assert await by_words("When must parental leave be announced?", leave) == [
        "It must be announced seven weeks before."
    ]


@pytest.mark.parametrize(
    ("question", "given", "other"),
    [
        ("Who tests the stand?", "The stand is tested by Ingrid Solberg.", "The stand is tested twice."),
        ("When is the stand tested?", "The stand is tested in May 2026.", "The stand is tested by the owner."),
        ("How many stands are tested?", "Of the stands, seven are tested.", "The stands are tested by the owner."),
        ("Where is the stand tested?", "The stand is tested in hall two.", "The stand is tested twice."),
        ("What does the tested stand cost?", "The tested stand is 40 euros.", "The tested stand is 40 metres."),
        ("Wann wird der Stand getestet?", "Der Stand wird am Montag getestet.", "Der Stand wird oft getestet."),
    ],
)
async def test_a_sentence_that_gives_what_is_asked_for_is_nearer(question: str, given: str, other: str) -> None:
    assert (await by_words(question, other, given))[0] == given


async def test_a_sentence_about_another_code_does_not_answer() -> None:
    assert await by_words("Who tests the stand P7?", "The stand P4 is tested by Ingrid Solberg.") == []
    assert await by_words("When is invoice 2025-0177 due?", "Invoice: 2025-0093; Due: 2025-10-09") == []


async def test_what_the_question_says_itself_is_not_what_it_asks_for() -> None:
    near = words_nearness(
        "When did the 2019 race start?", read("The 2019 race did start.", "The race did start in May 2019.")
    )
    assert near[1] > near[0] - 0.1


async def test_words_are_the_same_in_all_their_forms() -> None:
    assert await by_words("Who calibrates it?", "The calibration is done by Ingrid Solberg.")
    assert await by_words("Welche Kündigungsfristen?", "Die Kündigungsfrist beträgt drei Monate.")


WORDS = st.sampled_from(["fence", "write", "bread", "Anna", "5", "is", "the", "May"])
TEXTS = st.lists(WORDS, min_size=1, max_size=6).map(lambda words: f"The {' '.join(words)}.")


@given(st.lists(TEXTS, max_size=8), TEXTS)
async def test_it_quotes_at_most_three_whole_sentences_in_their_order(passages: list[str], question: str) -> None:
    sentences = read(*passages)
    found = await nearest_sentences(question, sentences, None)
    assert len(found) <= 3
    places = [sentences.index(each) for each in found]
    assert places == sorted(places)


@given(st.dictionaries(st.integers(0, 9), st.floats(0, 1)))
def test_the_nearest_sentence_comes_first_and_none_below_the_limit(nearness: dict[int, float]) -> None:
    sentences = [QuotableSentence("[1]", str(number)) for number in range(10)]
    chosen = choose(sentences, nearness, least=LEAST_NEARNESS)
    if not nearness or max(nearness.values()) < LEAST_NEARNESS:
        assert not chosen
        return
    assert nearness[int(chosen[0].text)] == max(nearness.values())
    assert all(nearness[int(each.text)] >= LEAST_NEARNESS for each in chosen)
