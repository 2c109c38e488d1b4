"""Texts whose words are known: pages of this project's documentation, with a table, code, a list and an address."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

_DOCS: Final = Path(__file__).parents[2] / "docs"
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_MARKUP: Final = re.compile(r"[*`#>|\[\]<>{}\\]")
_LEAST_CHARACTERS: Final = 200
_MOST_CHARACTERS: Final = 1_200
_LONGEST_WORD: Final = 30
_PARAGRAPHS: Final = 30
TITLE: Final = "Manual of the harbour"

BlockKind = Literal["title", "heading", "paragraph", "item", "code", "row", "address", "contents"]


@dataclass(frozen=True, slots=True)
class SourceBlock:
    kind: BlockKind
    lines: tuple[str, ...]
    """One line for a paragraph; cells of a row; name and page of an entry of the contents."""

    @property
    def text(self) -> str:
        return " ".join(self.lines)


_TABLE: Final = (
    ("Size", "Cores", "Memory"),
    ("small", "2", "4 GB"),
    ("medium", "8", "16 GB"),
    ("large", "32", "64 GB"),
)
_CODE: Final = ("def push(folder):", "for path in folder.rglob('*'):", "yield path.read_bytes()", "return None")
_ADDRESS: Final = ("Nora Lind", "12 Harbour Road", "4021 Old Port")
_ITEMS: Final = (
    "First stop the service, wait until each message that it took is answered, and look for the line that says so.",
    "Copy the folder.",
    "Start the service again; it reads what came in between, in the order in which it came, and says so at the end.",
)


def read_sources(count: int) -> list[list[SourceBlock]]:
    """Return the blocks of several documents."""
    paragraphs = [text for path in sorted(_DOCS.rglob("*.md")) for text in _paragraphs(path.read_text())]
    groups = [paragraphs[at : at + _PARAGRAPHS] for at in range(0, len(paragraphs) - _PARAGRAPHS, _PARAGRAPHS)]
    return [_document(groups[at * len(groups) // count]) for at in range(count)]


def _paragraphs(text: str) -> list[str]:
    parts = [" ".join(part.split()) for part in text.split("\n\n") if not re.match(r"\s*([#|`>-]|\d+\.|<)", part)]
    plain = [_MARKUP.sub("", _LINK.sub(r"\1", part)) for part in parts]
    return [
        each
        for each in plain
        if _LEAST_CHARACTERS <= len(each) <= _MOST_CHARACTERS
        and each.isascii()
        and max(map(len, each.split())) <= _LONGEST_WORD
    ]


def _document(paragraphs: list[str]) -> list[SourceBlock]:
    headings = [
        f"{number} {' '.join(text.split()[:4]).strip('.,:;')}" for number, text in enumerate(paragraphs[::5], 1)
    ]
    blocks = [SourceBlock("title", (TITLE,))]
    blocks += [SourceBlock("contents", (heading, str(number * 3))) for number, heading in enumerate(headings, 1)]
    for number, text in enumerate(paragraphs):
        if number % 5 == 0:
            blocks.append(SourceBlock("heading", (headings[number // 5],)))
        blocks.append(SourceBlock("paragraph", (text,)))
        if number == 3:
            blocks += [SourceBlock("row", row) for row in _TABLE]
        if number == 6:
            blocks += [SourceBlock("code", (line,)) for line in _CODE]
        if number == 8:
            blocks += [SourceBlock("item", (text,)) for text in _ITEMS]
        if number == 10:
            blocks += [SourceBlock("address", (line,)) for line in _ADDRESS]
    return blocks
