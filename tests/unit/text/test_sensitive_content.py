"""Credentials are found with their line, harmless texts pass, and no text takes long."""

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from re import _parser as sre_parse
from types import SimpleNamespace
from typing import Final

import pytest

from kb_knowledge.content_check import refuse_sensitive
from kb_shared.errors import RequestError
from kb_shared.observability.metrics import CONTENT_REFUSED
from kb_shared.text import sensitive_content
from kb_shared.text.sensitive_content import SensitivePattern, find_sensitive
from tests.unit.linear.growth import complaint

FOLDER: Final = Path(__file__).parent
CREDENTIALS: Final = [json.loads(line) for line in (FOLDER / "credentials_rot13.jsonl").read_text().splitlines()]
"""Invented credentials in ROT13, so that other programs which look for credentials don't find these."""
HARMLESS: Final = (FOLDER / "harmless.txt").read_text().splitlines()
LONG_CHARACTERS: Final = 200_000
# Each repeats the beginning of an expression that a naive one would follow to the end of the text, again and again.
HOSTILE: Final = (
    "eyJ",
    "://a:",
    "aws key ",
    "artif ",
    "password is ",
    "-----BEGIN PRIVATE KEY-----",
    "\n",
    "xoxb-1",
    "curl ",
    "curl -u a:",
)


def decode(row: dict[str, str]) -> str:
    return codecs.decode(row["rot13"], "rot13")


def test_the_corpus_has_85_credentials_and_246_harmless_texts() -> None:
    assert len({row["rot13"] for row in CREDENTIALS}) == 85
    assert len(set(HARMLESS)) == 246


def test_each_credential_is_found_with_its_pattern_and_its_line() -> None:
    found = [(place.pattern, place.line) if (place := find_sensitive(decode(row))) else None for row in CREDENTIALS]
    assert found == [(row["pattern"], row["line"]) for row in CREDENTIALS]


def test_harmless_texts_pass_also_all_in_one_text() -> None:
    assert [text for text in HARMLESS if find_sensitive(text)] == []
    assert find_sensitive("\n".join(HARMLESS)) is None


def test_a_credential_in_the_middle_of_a_long_line_is_found() -> None:
    for row in CREDENTIALS:
        if row["line"] == 1:
            place = find_sensitive("max 200 tokens\n" + "word " * 347 + decode(row) + " word" * 500)
            assert place is not None, row
            assert place.line == 2


def test_a_credential_is_found_where_the_parts_of_a_long_text_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensitive_content, "_PART_CHARACTERS", 5_000)
    monkeypatch.setattr(sensitive_content, "_SHARED_CHARACTERS", 2_500)
    monkeypatch.setattr(sensitive_content, "_LONGEST_LINE_TO_KEEP_WHOLE", 200)
    assert max(len(decode(row)) for row in CREDENTIALS) < 2_500
    for row in CREDENTIALS:
        # The second part begins at 2,500, and the first one ends at 5,000.
        for line, before in (("Of a page.\n", 2_400), ("word ", 4_800), ("Of a page.\n", 4_960)):
            text = (line * 1_000)[:before] + "\n" + decode(row)
            place = find_sensitive(f"{text}\n" + line * 200)
            assert place is not None, row
            assert place.line == text.count("\n", 0, before + 1) + row["line"]
    assert find_sensitive("\n".join(HARMLESS)) is None


@pytest.mark.parametrize("seed", HOSTILE)
def test_detectors_of_the_library_which_may_be_quadratic_see_short_windows_of_a_text(
    seed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[int]()

    def find_nothing(part: str) -> Iterator[re.Match[str]]:
        read.append(len(part))
        return iter(())

    detector = SimpleNamespace(denylist=[SimpleNamespace(finditer=find_nothing)])
    monkeypatch.setattr(sensitive_content, "_DETECTORS", ((SensitivePattern.AWS_KEY, detector),))
    find_sensitive((seed * LONG_CHARACTERS)[:LONG_CHARACTERS])
    assert max(read, default=0) <= 1_000
    assert sum(read) <= 2 * LONG_CHARACTERS


@pytest.mark.parametrize("expression", [expression.pattern for _, expression in sensitive_content._EXPRESSIONS])
def test_no_expression_follows_a_text_to_its_end(expression: str) -> None:
    _, most_characters = sre_parse.parse(expression).getwidth()
    assert most_characters < sensitive_content._SHARED_CHARACTERS


@pytest.mark.parametrize("seed", HOSTILE)
def test_four_times_the_text_takes_about_four_times_as_long(seed: str) -> None:
    # No program counts the steps of an expression, so CPU time is compared with CPU time of the same moment.
    assert not complaint(find_sensitive, lambda length: seed * (length // len(seed)), longest=LONG_CHARACTERS // 4)


def test_a_refusal_names_pattern_line_and_field_but_not_the_credential() -> None:
    for row in CREDENTIALS:
        counted = CONTENT_REFUSED.labels(row["pattern"])._value.get()
        with pytest.raises(RequestError) as refused:
            refuse_sensitive(decode(row), field="content")
        assert refused.value.extra == {"pattern": row["pattern"], "line": row["line"], "field": "content"}
        words = {word for word in decode(row).split() if len(word) > 5 and any(letter.isdigit() for letter in word)}
        assert not [word for word in words if word in refused.value.detail]
        assert CONTENT_REFUSED.labels(row["pattern"])._value.get() == counted + 1
