from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kb_client.files.file_parser import FileParser
from kb_client.files.formats import SUFFIXES
from tests.files.case import Case
from tests.files.reading import CASES, faults


@pytest.fixture(scope="module")
def parser() -> Iterator[FileParser]:
    with FileParser() as parser:
        yield parser


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_text_has_what_a_person_sees(case: Case, parser: FileParser, tmp_path: Path) -> None:
    assert faults(parser, case, tmp_path) == []


def test_the_corpus_has_files_of_all_formats_and_each_once() -> None:
    counts = Counter(case.id for case in CASES)

    assert [each for each, count in counts.items() if count > 1] == []
    assert {case.suffix for case in CASES} | {".text", ".markdown", ".htm", ".xhtml"} == SUFFIXES


def test_a_text_that_misses_something_is_found() -> None:
    case = Case("", ".txt", b"", shows=("one", ("two", "2")), hides=("three",), warns="lost")

    assert case.misses("one 2", said=["1 was lost"]) == []
    assert case.misses("2 one", said=["lost"]) == ["lacks 'two' or '2'"]
    assert case.misses("one two three", said=[]) == ["shows 'three'", "does not warn of 'lost'"]
