"""Differences between the words that a document has and those that were read from its PDF."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from benchmarks.pdf_text.sources import SourceBlock


@dataclass(frozen=True, slots=True)
class Differences:
    words: int
    errors: int
    """Words that have to be changed, added or taken out."""
    shown: list[str]
    """Words that differ, and the beginnings of paragraphs that are more than one line."""
    whole: int
    """Paragraphs and entries of lists that are one line."""
    paragraphs: int
    kept: int
    """Lines of code, tables, addresses and contents, and headings, that are lines of their own."""
    lines: int


def compare(blocks: Sequence[SourceBlock], text: str) -> Differences:
    """Return how a text that was read differs from the blocks of its source."""
    wanted, found = _words(" ".join(block.text for block in blocks)), _words(text)
    errors, shown = 0, []
    for kind, start, end, begin, stop in SequenceMatcher(None, wanted, found, autojunk=False).get_opcodes():
        if kind != "equal":
            errors += max(end - start, stop - begin)
            shown.append(f"{' '.join(wanted[start:end])!r} -> {' '.join(found[begin:stop])!r}")
    lines = [" ".join(_words(line)) for line in text.split("\n")]
    flowing = [" ".join(_words(block.text)) for block in blocks if block.kind in ("paragraph", "item")]
    short = [" ".join(_words(block.text)) for block in blocks if block.kind not in ("paragraph", "item")]

    def is_whole(paragraph: str) -> bool:
        return any(line.endswith(paragraph) for line in lines)

    return Differences(
        words=len(wanted),
        errors=errors,
        shown=[*shown, *(f"parted: {each[:40]}" for each in flowing if not is_whole(each))],
        whole=sum(map(is_whole, flowing)),
        paragraphs=len(flowing),
        kept=sum(each in lines for each in short),
        lines=len(short),
    )


def _words(text: str) -> list[str]:
    """Return the words of a text; leaders and bullets are none, and programs make some apostrophes round."""
    return [word for word in text.replace("\u2019", "'").split() if any(map(str.isalnum, word))]
