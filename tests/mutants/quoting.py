"""Faults of the model that quotes: fragments, headings, answers to what no document answers."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_MODEL_SERVER: Final = "local/kb_local/model_server"
_SENTENCES: Final = "tests/unit/model_server/test_quotable_sentences.py"
_NEAREST: Final = "tests/unit/model_server/test_nearest_sentences.py"

MUTANTS: Final = (
    Mutant(
        "headings-are-quoted",
        f"{_MODEL_SERVER}/passage_blocks.py",
        old='            return [PassageBlock("heading", heading["text"].strip(" #"))]\n',
        new='            return [PassageBlock("text", heading["text"].strip(" #"))]\n',
        caught_by=in_file(_SENTENCES, "test_no_heading_is_ever_quoted"),
    ),
    Mutant(
        "far-sentences-answer",
        f"{_MODEL_SERVER}/nearest_sentences.py",
        old="    if nearness[best] < least:\n",
        new="    if False:\n",
        caught_by=in_file(_NEAREST, "test_the_nearest_sentence_comes_first_and_none_below_the_limit"),
    ),
    Mutant(
        "another-code-answers",
        f"{_MODEL_SERVER}/nearest_sentences.py",
        old="_LACKS_CODE: Final = 0.3\n",
        new="_LACKS_CODE: Final = 0.0\n",
        caught_by=in_file(_NEAREST, "test_a_sentence_about_another_code_does_not_answer"),
    ),
)
