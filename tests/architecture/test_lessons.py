"""The table of what went wrong elsewhere against the tests that say it can't here."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (?P<item>[WC]\d+) \| [^|]+ \| [^|]+ \| (?P<tests>[^|]+) \|$", re.MULTILINE)
TEST = re.compile(r"^(?:async )?def (test_[wc]\d+_\w+)\(", re.MULTILINE)
ITEMS = [*(f"W{n}" for n in range(1, 18)), *(f"C{n}" for n in range(1, 12))]


def table() -> dict[str, str]:
    text = (ROOT / "docs/explanation/lessons.md").read_text()
    return {row["item"]: row["tests"] for row in ROW.finditer(text)}


def test_every_lesson_has_its_line() -> None:
    assert list(table()) == ITEMS


def test_every_lesson_names_tests_that_carry_its_id_and_every_such_test_is_named() -> None:
    there = {name for file in (ROOT / "tests").rglob("test_*.py") for name in TEST.findall(file.read_text())}
    named = {item: set(re.findall(r"`(\w+)`", tests)) for item, tests in table().items()}
    assert set().union(*named.values()) == there
    for item, names in named.items():
        assert all(name.startswith(f"test_{item.lower()}_") for name in names), item
        assert names, item
