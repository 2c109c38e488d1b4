"""Texts that make a scan look at the same characters again and again, if it ever does."""

from dataclasses import dataclass
from typing import Final

from hypothesis import strategies as st


@dataclass(frozen=True, slots=True)
class Shape:
    """`unit` repeated between two ends."""

    unit: str
    before: str = ""
    after: str = ""

    def text(self, length: int) -> str:
        return self.before + self.unit * max(1, length // len(self.unit)) + self.after


PIECES: Final = (
    *("\n", " ", "\t", "\r\n", "\u00a0", "\u00ad", "\u200b", "\ufb01"),
    *("[", "]", "(", "{", "<", "|", "`", "```", "~~~", '"', "'", '\\"', "\\", "!", ".", ",", ":", "-", "#", "/"),
    *("a", "A", "1", "\u4e2d", "\u0e01", "e\u0301", "[1", "[document", "https:", "www.", "|-", "# a"),
)
SHAPES: Final = (
    *(Shape(piece) for piece in PIECES),
    *(Shape(piece, after="x") for piece in (" ", "\n", "\t", "1", "!", '"')),
    *(Shape(unit) for unit in (" \n", "\n ", "\n\t", "a ", "a\n", "a. ", "[1, ", "1,", "\n[document", '!"', "`a\n")),
    *(Shape(unit) for unit in ("| a |\n", "|-", "# a\n", "```\n", "aA", ".a", "a, ", '"a": ', "https://a ", "](")),
    Shape(" ", before="[1", after="x"),
    Shape(", 1", before="[1"),
    Shape("a", before="https://"),
    *(Shape(unit) for unit in ("<a", "<a ", "&a", "&#0", "&#0;", "<a b=")),
    Shape(" b", before="<a"),
    Shape("a", before='"'),
    Shape(" ", before="# ", after="\n"),
    Shape("- ", before="| a | b |\n|"),
    Shape("a\n", before="```\n"),
    Shape("```\n", before="`" * 500 + "\n"),
)

_pieces = st.sampled_from(PIECES)
mixed: Final = st.builds(
    Shape,
    st.lists(_pieces, min_size=2, max_size=4).map("".join),
    before=st.just("") | _pieces,
    after=st.just("") | _pieces,
)
