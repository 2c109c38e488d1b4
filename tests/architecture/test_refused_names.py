"""Unusual names, and phrases that one has to read twice, do not come back."""

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
    "tests/injection/attacks.toml",
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
    lines = enumerate(text.splitlines(), 1)
    return [finding for number, line in lines for finding in findings_in_line(f"{name}:{number}", line)]


def findings_in_line(place: str, line: str) -> list[str]:
    return [
        f"{place}: {found.group()!r}: write {refused.instead}"
        for refused in refused_names()
        if (found := refused.pattern.search(line))
    ]


def test_no_tracked_file_has_a_refused_name() -> None:
    lines = [line for line in _lines_with_refused_names() if _is_searched(line.partition(":")[0])]
    assert [finding for line in lines for finding in findings_in_line(*_place_and_text(line))] == []


@pytest.mark.parametrize("refused", refused_names(), ids=lambda refused: refused.pattern.pattern)
def test_each_refused_name_says_what_to_write_instead_and_is_not_itself_refused(refused: Refused) -> None:
    assert refused.instead
    assert findings("list", refused.instead) == []


def test_a_refused_name_is_found_with_its_place() -> None:
    assert findings("a.md", "It is\nbuilt anew.") == ["a.md:2: 'anew': write again"]


def _lines_with_refused_names() -> list[str]:
    """Return `file:number:text` of each tracked line with a refused name; git finds them faster than Python."""
    any_name = "|".join(f"(?:{refused.pattern.pattern})" for refused in refused_names())
    found = subprocess.run(("git", "grep", "-InP", any_name), cwd=ROOT, check=False, capture_output=True, text=True)
    assert found.returncode in {0, 1}, found.stderr
    return found.stdout.splitlines()


def _is_searched(name: str) -> bool:
    return Path(name).suffix in _SEARCHED and not name.startswith(_NOT_SEARCHED)


def _place_and_text(line: str) -> tuple[str, str]:
    name, number, text = line.split(":", 2)
    return f"{name}:{number}", text
