"""The index of the docs lists every page, and the glossary has each term once."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
INDEX = (DOCS / "README.md").read_text()
LISTED = re.compile(r"\]\((?P<page>[\w/.-]+\.md)\)")
DECISION = re.compile(r"^(?P<number>\d+)\. \[(?P<title>.+)\]\((?P<page>adr/[\w.-]+)\)$", re.MULTILINE)
TERM = re.compile(r"^\| (?P<term>[^|]+?) \| (?P<meaning>.+) \|$", re.MULTILINE)


def terms() -> tuple[list[str], list[str]]:
    """Return the terms that users meet, and those inside the services."""
    of_users, inside = (DOCS / "explanation/glossary.md").read_text().split("## Inside the services")
    return _terms_in(of_users), _terms_in(inside)


def _terms_in(section: str) -> list[str]:
    rows = [match["term"] for match in TERM.finditer(section)]
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
    of_users, inside = terms()
    assert 30 < len(of_users) < 60
    assert not {*of_users} & {*inside}
    for each in (of_users, inside):
        assert each == sorted(set(each), key=str.lower)
