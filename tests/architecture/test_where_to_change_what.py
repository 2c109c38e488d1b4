"""The term of each task in CONTRIBUTING finds its file."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where to change what")[2].partition("\n## ")[0]
ROW = re.compile(r"^\| (?P<task>[^|]+) \| `(?P<file>[\w/.-]+)`[^|]* \| `(?P<term>[^`]+)` \|$", re.MULTILINE)
FOLDERS = ("client", "contracts", "docs", "local", "observability", "services", "shared")
ROWS = [(match["task"], match["file"], match["term"]) for match in ROW.finditer(SECTION)]


def hits(term: str, suffix: str) -> dict[str, int]:
    """Return how often the term is in each file of a kind, without those that do not have it."""
    files = (file for folder in FOLDERS for file in (ROOT / folder).rglob(f"*{suffix}"))
    counts = {str(file.relative_to(ROOT)): file.read_text().count(term) for file in files}
    return {file: count for file, count in counts.items() if count}


def test_there_are_ten_tasks() -> None:
    assert len(ROWS) == 10


@pytest.mark.parametrize(("file", "term"), [(file, term) for _, file, term in ROWS], ids=[row[0] for row in ROWS])
def test_the_file_of_a_task_is_among_the_first_three_that_its_term_finds(file: str, term: str) -> None:
    found = hits(term, Path(file).suffix)
    third = sorted(found.values(), reverse=True)[:3][-1]
    assert found.get(file, 0) >= third, sorted(found.items(), key=lambda one: -one[1])[:5]
