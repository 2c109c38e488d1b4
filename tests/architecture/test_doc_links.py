"""Every relative link in the Markdown files leads to a file, and to a heading of it if it names one."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("services/**/*.md"),
        *ROOT.glob("contracts/**/*.md"),
        *ROOT.glob("shared/**/*.md"),
        *ROOT.glob("client/**/*.md"),
        ROOT / "clients/typescript/README.md",
        *ROOT.glob("local/**/*.md"),
    ]
)
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (?P<title>.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the ids that GitHub gives the headings of `page`."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    titles = [match["title"].strip().lower() for match in HEADING.finditer(text)]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def broken(page: Path) -> list[str]:
    found = []
    for match in LINK.finditer(CODE.sub("", page.read_text())):
        path, _, anchor = match["target"].partition("#")
        if "://" in path or path.startswith("mailto:"):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(match["target"])
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert broken(page) == []
