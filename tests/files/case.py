"""A file with what a person sees who opens it, and whether a text has it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Expected = str | tuple[str, ...]
"""A text, or the forms of which one must be there, such as `("10^6", "10⁶")`."""

_ESCAPED: Final = re.compile(r"\\([^\w\s])")
_MARKS: Final = re.compile(r"[*`]+|&nbsp;|\bNaN\b")


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    """Sentence that says what a person sees."""
    suffix: str
    data: bytes
    shows: tuple[Expected, ...] = ()
    """Texts that must be there in this order."""
    hides: tuple[str, ...] = ()
    """Texts that must not be there."""
    warns: str | None = None
    """Words that a warning, or the reason for a refusal, must have."""
    title: str | None = None

    @property
    def id(self) -> str:
        return f"{self.suffix[1:]}-{self.name.replace(' ', '-')}"

    def misses(self, text: str, *, title: str | None = None, said: Sequence[str] = ()) -> list[str]:
        """Return what is wrong with what was read.

        Args:
            text: text of the file.
            title: name of the document.
            said: warnings, and reason and remedy of a refusal.
        """
        missing = self.lacks(text)
        if self.warns is not None and not any(self.warns in each for each in said):
            missing.append(f"does not warn of {self.warns!r}")
        if self.title is not None and title != self.title:
            missing.append(f"has the title {title!r}")
        return missing

    def lacks(self, text: str) -> list[str]:
        """Return what a text does not show, and what it should not show."""
        shown = plain(text)
        return [*missing_in(text, self.shows), *(f"shows {each!r}" for each in self.hides if plain(each) in shown)]


def missing_in(text: str, expected: Sequence[Expected]) -> list[str]:
    """Return the first expected text that is not where it should be."""
    shown, at = plain(text), 0
    for each in expected:
        forms = [each] if isinstance(each, str) else each
        ends = [found + len(plain(form)) for form in forms if (found := shown.find(plain(form), at)) >= 0]
        if not ends:
            return [f"lacks {' or '.join(map(repr, forms))}"]
        at = min(ends)
    return []


def plain(text: str) -> str:
    """Return a text without the marks of Markdown, and with single spaces: they differ from reader to reader."""
    return " ".join(_MARKS.sub("", _ESCAPED.sub(r"\1", text)).split())
