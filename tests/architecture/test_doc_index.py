"""The index of the docs lists every page, and the glossary has each term once."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
INDEX = (DOCS / "README.md").read_text()
LISTED = re.compile(r"\]\((?P<page>[\w/.-]+\.md)\)")
DECISION = re.compile(r"^(?P<number>\d+)\. \[(?P<title>.+)\]\((?P<page>adr/[\w.-]+)\)$", re.MULTILINE)
TERM = re.compile(r"^\| (?P<term>[^|]+?) \| (?P<meaning>.+) \|$", re.MULTILINE)


def terms() -> list[str]:
    rows = [match["term"] for match in TERM.finditer((DOCS / "explanation/glossary.md").read_text())]
    return [term for term in rows if term not in ("term", "---")]


def test_every_page_is_listed_in_the_index() -> None:
    pages = {str(page.relative_to(DOCS)) for page in DOCS.glob("**/*.md")} - {"README.md"}
    assert {match["page"] for match in LISTED.finditer(INDEX)} == pages


def test_decisions_are_listed_in_order_under_their_own_titles() -> None:
    listed = [(int(match["number"]), match["title"], match["page"]) for match in DECISION.finditer(INDEX)]
    titles = []
    for page in sorted((DOCS / "adr").glob("*.md")):
        number, _, title = page.read_text().partition("\n")[0].removeprefix("# ").partition(". ")
        titles.append((int(number), title, f"adr/{page.name}"))
    assert listed == titles


def test_the_glossary_has_each_term_once_and_in_order() -> None:
    assert len(terms()) > 50
    assert terms() == sorted(set(terms()), key=str.lower)
