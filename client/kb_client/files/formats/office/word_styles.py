"""Styles of Word files, as far as they say what is shown: hidden, struck or raised text, headings, numbers of lists."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kb_client.files.formats.office.word_numbering import WORD

if TYPE_CHECKING:
    from lxml.etree import _Element

_HEADING: Final = re.compile(r"heading (\d)", re.IGNORECASE)
_DEEPEST_CHAIN: Final = 30
_OFF: Final = ("0", "false", "off", "none")


@dataclass(frozen=True, slots=True)
class RunFormat:
    hidden: bool = False
    struck: bool = False
    bold: bool = False
    position: str = ""
    """`superscript`, `subscript`, or empty."""
    font: str = ""


class Styles:
    def __init__(self, root: "_Element | None") -> None:
        """Read `w:styles`; None if the file has none."""
        found = () if root is None else root.iterfind(f"{WORD}style")
        self._styles = {style.get(f"{WORD}styleId", ""): style for style in found}
        self._formats: dict[tuple[str, str], RunFormat] = {}

    def name(self, style: str) -> str:
        element = self._styles.get(style)
        return "" if element is None else value_of(element, "name") or ""

    def numbers(self) -> dict[str, str]:
        """Return the lists of the styles that number their paragraphs."""
        return {style: number for style in self._styles if (number := self.numbering(style)[0])}

    def numbering(self, style: str) -> tuple[str, str]:
        """Return the list of a style and its level there, each empty if it has none."""
        for element in self._chain(style):
            properties = element.find(f"{WORD}pPr/{WORD}numPr")
            if properties is not None and (number := value_of(properties, "numId")):
                return number, value_of(properties, "ilvl") or ""
        return "", ""

    def heading_level(self, style: str) -> int:
        """Return the level of a heading, from 1; 0 for other paragraphs."""
        for element in self._chain(style):
            if found := _HEADING.fullmatch(value_of(element, "name") or ""):
                return int(found[1]) or 1
            if outline := value_of(element, "pPr", "outlineLvl"):
                return int(outline) + 1 if outline.isdigit() and int(outline) < len("123456789") else 0
        return 0

    def run_format(self, properties: "_Element | None", paragraph_style: str) -> RunFormat:
        """Return the format of a run, from its own properties (`w:rPr`) and its styles."""
        style = "" if properties is None else value_of(properties, "rStyle") or ""
        key = (style, paragraph_style)
        if key not in self._formats:
            chain = [*self._chain(style), *self._chain(paragraph_style)]
            self._formats[key] = _format([each.find(f"{WORD}rPr") for each in chain])
        inherited = self._formats[key]
        return inherited if properties is None else _format([properties], inherited)

    def has_bold_first_row(self, table_style: str) -> bool:
        parts = (
            part
            for element in self._chain(table_style)
            for part in element.iterfind(f"{WORD}tblStylePr")
            if part.get(f"{WORD}type") == "firstRow"
        )
        return any(_switch(part.find(f"{WORD}rPr"), "b") for part in parts)

    def _chain(self, style: str) -> "list[_Element]":
        """Return a style and those that it is based on, the nearest first."""
        chain: list[_Element] = []
        while style in self._styles and len(chain) < _DEEPEST_CHAIN:
            chain.append(self._styles[style])
            style = value_of(chain[-1], "basedOn") or ""
        return chain


def value_of(element: "_Element", *names: str) -> str | None:
    """Return the value of a property of an element, such as `w:pStyle`."""
    found = element.find("/".join(f"{WORD}{name}" for name in names))
    return None if found is None else found.get(f"{WORD}val")


def _switch(properties: "_Element | None", name: str) -> bool | None:
    """Return whether a property is on; None if it is not there."""
    found = None if properties is None else properties.find(f"{WORD}{name}")
    return None if found is None else found.get(f"{WORD}val", "1") not in _OFF


def _format(chain: "list[_Element | None]", inherited: RunFormat | None = None) -> RunFormat:
    """Return what the first one of the properties in a chain says of each."""
    inherited = inherited or RunFormat()

    def switch(*names: str, default: bool) -> bool:
        found = (_switch(properties, name) for properties in chain for name in names)
        return next((each for each in found if each is not None), default)

    given = [properties for properties in chain if properties is not None]
    position = next((each for properties in given if (each := _position(properties)) is not None), None)
    fonts = (properties.find(f"{WORD}rFonts") for properties in given)
    font = next((name for each in fonts if each is not None and (name := each.get(f"{WORD}ascii"))), None)
    return RunFormat(
        hidden=switch("vanish", default=inherited.hidden),
        struck=switch("strike", "dstrike", default=inherited.struck),
        bold=switch("b", default=inherited.bold),
        position=inherited.position if position is None else position,
        font=font or inherited.font,
    )


def _position(properties: "_Element") -> str | None:
    """Return where small characters stand: LibreOffice raises or lowers some by a distance, in a smaller size."""
    if (named := value_of(properties, "vertAlign")) is not None:
        return named.replace("baseline", "")
    raised, size = value_of(properties, "position"), value_of(properties, "sz")
    if raised is None or size is None or raised.strip("-") == "0":
        return None
    return "subscript" if raised.startswith("-") else "superscript"
