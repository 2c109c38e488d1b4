"""Names that nobody searches for, and phrases that one has to read twice, do not come back."""

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[2]
LIST: Final = Path(__file__).with_name("refused_names.txt")
ARROW: Final = " -> "
_NOT_SEARCHED: Final = (
    "CHANGELOG.md",
    "requirements",
    "tests/architecture/refused_names.txt",
    "tests/architecture/test_refused_names.py",
)
_SEARCHED: Final = frozenset({".py", ".md", ".toml", ".json", ".yml", ".yaml", ".sh", ""})


class Refused(NamedTuple):
    pattern: re.Pattern[str]
    instead: str


@cache
def refused_names() -> list[Refused]:
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return [Refused(re.compile(pattern), instead) for pattern, instead in (line.split(ARROW) for line in lines)]


def findings(name: str, text: str) -> list[str]:
    """Name each line of a file that has a refused name, and what to write instead."""
    return [
        f"{name}:{number}: {found.group()!r}: write {refused.instead}"
        for refused in refused_names()
        for number, line in _lines_with(refused.pattern, text)
        if (found := refused.pattern.search(line))
    ]


def _lines_with(pattern: re.Pattern[str], text: str) -> list[tuple[int, str]]:
    """Number the lines of a text, if the pattern is in it at all."""
    return list(enumerate(text.splitlines(), 1)) if re.search(pattern.pattern, text, re.MULTILINE) else []


def test_no_tracked_file_has_a_refused_name() -> None:
    assert [finding for name in _searched() for finding in findings(name, (ROOT / name).read_text())] == []


@pytest.mark.parametrize("refused", refused_names(), ids=lambda refused: refused.pattern.pattern)
def test_each_refused_name_says_what_to_write_instead_and_is_not_itself_refused(refused: Refused) -> None:
    assert refused.instead
    assert findings("list", refused.instead) == []


def test_a_refused_name_is_found_with_its_place() -> None:
    assert findings("a.md", "It is\nbuilt anew.") == ["a.md:2: 'anew': write again"]


def _searched() -> list[str]:
    listed = subprocess.run(("git", "ls-files"), cwd=ROOT, check=True, capture_output=True, text=True)
    return [
        name
        for name in listed.stdout.splitlines()
        if Path(name).suffix in _SEARCHED and not name.startswith(_NOT_SEARCHED) and (ROOT / name).is_file()
    ]
