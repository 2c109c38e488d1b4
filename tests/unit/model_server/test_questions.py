import pytest

from kb_local.model_server.questions import is_follow_up, with_questions_before, words


@pytest.mark.parametrize(
    "question",
    ["and how many can be carried over?", "Who signs it?", "Why?", "Und wer unterschreibt das?", "What about laptops?"],
)
def test_a_question_that_goes_on_or_refers_to_something_follows_the_one_before(question: str) -> None:
    assert is_follow_up(question)
    assert with_questions_before(["How many days?", question]) == f"How many days? {question}"


@pytest.mark.parametrize(
    "question",
    [
        "How many days of holiday are there?",
        "Who calibrates the test stand P4?",
        "How do passages overlap when a long document is split into them?",
    ],
)
def test_a_question_with_a_subject_of_its_own_stands_alone(question: str) -> None:
    assert not is_follow_up(question)
    assert with_questions_before(["What is bread?", question]) == question


def test_a_follow_up_of_a_follow_up_is_read_with_both() -> None:
    asked = ["What is bread?", "How many days of holiday are there?", "And for trainees?", "And when?"]
    assert with_questions_before(asked) == " ".join(asked[1:])


def test_the_first_question_has_none_before_it() -> None:
    assert with_questions_before(["And why?"]) == "And why?"
    assert with_questions_before([]) == ""


def test_words_without_spaces_are_pairs_of_characters() -> None:
    assert words("\u6771\u4eac\u90fd") == ["\u6771\u4eac", "\u4eac\u90fd"]


def test_letters_behind_an_apostrophe_are_no_words() -> None:
    assert words("A doctor's note isn't in it") == words("doctor note isn")
