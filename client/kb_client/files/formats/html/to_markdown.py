"""Writes the tree of a page as Markdown: what is seen, without the targets of links and pictures."""

import re
from collections.abc import Callable, Collection
from typing import Any, Final

from bs4 import NavigableString, Tag
from markdownify import ATX, MarkdownConverter, should_remove_whitespace_outside  # type: ignore[attr-defined]  # their stubs lack it

from kb_client.files.formats.html.inline_style import is_block
from kb_client.files.formats.html.mathml import formula_to_text
from kb_client.files.formats.text.literal_lines import keep_literal
from kb_client.files.formats.text.superscripts import plain_fractions, subscript, superscript

_BLOCKS: Final = (
    "address",
    "aside",
    "center",
    "details",
    "dialog",
    "fieldset",
    "figure",
    "footer",
    "form",
    "header",
    "hgroup",
    "legend",
    "main",
    "nav",
    "noscript",
    "object",
    "search",
    "summary",
    "template",
)
_PADDED: Final = frozenset({"button", "img", "input", "label", "math", "option", "select", "svg"})
"""Elements between which browsers show a gap, whether there is a space or not."""
_INLINE: Final = frozenset({"a", "label", "small", "span"})
_NOTE_IN_BRACKETS: Final = re.compile(r"\[[^\[\]]*\]|[^()]*\)")
_UNSEEN_CHARACTERS: Final = str.maketrans({"\u00ad": None, "\u200b": None, "\ufeff": None})
_FILE_NAME: Final = re.compile(r"\S+\.(?:png|jpe?g|gif|svg|webp|bmp|tiff?)", re.IGNORECASE)
_NOT_DRAWN: Final = ["defs", "symbol", "clippath", "mask", "pattern", "marker"]
"""Parts of a drawing that are only used by others."""
_TYPED: Final = frozenset(
    {"", "text", "number", "email", "tel", "url", "date", "time", "datetime-local", "month", "week"}
    | {"submit", "button", "reset"}
)
_NUMBERING: Final = {
    "a": "lower-alpha",
    "A": "upper-alpha",
    "i": "lower-roman",
    "I": "upper-roman",
}
_LIST_STYLE: Final = re.compile(r"list-style(?:-type)?\s*:\s*((?:lower|upper)-(?:alpha|latin|roman))", re.IGNORECASE)
_ROMAN: Final = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl")),
    *((10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)
_LETTERS: Final = 26
_MAX_ROMAN: Final = 4_000
_LINE_WITH_CONTENT: Final = re.compile(r"^(?=.)", re.MULTILINE)


def to_markdown(element: Tag) -> str:
    """Return an element as Markdown without empty lines at its ends."""
    converter = _PageConverter(
        heading_style=ATX, bullets="-", strip=["a"], escape_asterisks=False, escape_underscores=False
    )
    markdown = plain_fractions(converter.convert_soup(element))
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t\xa0]+$", "", markdown, flags=re.MULTILINE)).strip()


class _PageConverter(MarkdownConverter):
    """Converts elements by the name of their methods, as Markdownify wants it."""

    def process_text(self, el: NavigableString, parent_tags: Collection[str] | None = None) -> str:
        text: str = super().process_text(el, parent_tags=parent_tags)  # type: ignore[misc]  # their stubs lack it
        if "pre" in (parent_tags or ()):
            return text
        return keep_literal(text.translate(_UNSEEN_CHARACTERS))

    def process_tag(self, node: Tag, parent_tags: Collection[str] | None = None) -> str:
        if node.name == "math":
            return _padded(formula_to_text(node), node)
        if node.name in _INLINE and node.has_attr("style") and is_block(node):
            node.name = "div"
        if node.name == "svg":
            return _padded(_text_of_drawing(node), node)
        text: str = super().process_tag(node, parent_tags=parent_tags)  # type: ignore[misc]  # their stubs lack it
        return text

    def convert_img(self, el: Tag, _text: str, **_context: Any) -> str:
        alt = " ".join(str(el.get("alt") or "").split())
        if _FILE_NAME.fullmatch(alt) or el.get("role") in ("presentation", "none"):
            return ""
        return _padded(alt, el)

    def convert_button(self, el: Tag, text: str, **_context: Any) -> str:
        return _padded(" ".join(text.split()), el)

    convert_label = convert_option = convert_button

    def convert_input(self, el: Tag, _text: str, **_context: Any) -> str:
        kind = str(el.get("type") or "").lower()
        if kind in ("checkbox", "radio"):
            return _padded("[x]" if el.has_attr("checked") else "[ ]", el)
        return _padded(" ".join(str(el.get("value") or "").split()), el) if kind in _TYPED else ""

    def convert_select(self, el: Tag, _text: str, **_context: Any) -> str:
        options = el.find_all("option")
        chosen = [option for option in options if option.has_attr("selected")] or options[:1]
        shown = options if el.has_attr("multiple") or str(el.get("size") or "1").strip() != "1" else chosen
        return _padded(", ".join(" ".join(option.get_text(" ").split()) for option in shown), el)

    def convert_sup(self, el: Tag, text: str, **_context: Any) -> str:
        before = el.previous_sibling
        if _NOTE_IN_BRACKETS.fullmatch(text.strip()):
            return text if text.strip().startswith("[") else f"^{text.strip()}"
        return superscript(text, after=str(before) if isinstance(before, NavigableString) else "")

    def convert_sub(self, _el: Tag, text: str, **_context: Any) -> str:
        return subscript(text)

    def convert_rt(self, _el: Tag, text: str, **_context: Any) -> str:
        return f"({text.strip()})" if text.strip() else ""

    def convert_progress(self, _el: Tag, _text: str, **_context: Any) -> str:
        return ""

    convert_meter = convert_progress

    def convert_td(self, el: Tag, text: str, parent_tags: Collection[str]) -> str:
        cell: str = super().convert_td(el, text.replace("|", "\\|"), parent_tags)  # type: ignore[misc]  # their stubs lack it
        return cell

    convert_th = convert_td

    def convert_li(self, el: Tag, text: str, **_context: Any) -> str:
        bullet = _bullet(el)
        indent = " " * len(bullet)
        lines = _LINE_WITH_CONTENT.sub(indent, (text or "").strip())
        return bullet + lines[len(indent) :] + "\n" if lines else "\n"


def _as_block(converter: _PageConverter, el: Tag, text: str, *, parent_tags: Collection[str]) -> str:
    block: str = converter.convert_div(el, text, parent_tags)  # type: ignore[attr-defined]  # their stubs lack it
    return block


for _name in _BLOCKS:
    setattr(_PageConverter, f"convert_{_name}", _as_block)


def _padded(text: str, element: Tag) -> str:
    """Return the text of an element that stands beside others without a space, with spaces where words would join."""
    if not text:
        return ""
    before, after = element.previous_sibling, element.next_sibling
    begins_line = isinstance(before, Tag) and should_remove_whitespace_outside(before)
    left = " " if not begins_line and (isinstance(before, Tag) or str(before or " ")[-1].isalnum()) else ""
    pads_itself = isinstance(after, Tag) and after.name in _PADDED
    right = " " if not pads_itself and (isinstance(after, Tag) or str(after or " ")[0].isalnum()) else ""
    return left + text + right


def _text_of_drawing(drawing: Tag) -> str:
    """Return the texts of a drawing; of one without any, the name that it has for those who can't see it."""
    drawn = [each for each in drawing.select("text, foreignobject") if each.find_parent(_NOT_DRAWN) is None]
    texts = [" ".join(each.get_text(" ").split()) for each in drawn]
    name = str(drawing.get("aria-label") or "") if drawing.get("role") == "img" else ""
    return " ".join(text for text in texts if text) or " ".join(name.split())


def _bullet(item: Tag) -> str:
    numbered = item.parent
    if numbered is None or numbered.name != "ol":
        return "- "
    number = _number(item, numbered)
    style = _LIST_STYLE.search(str(numbered.get("style") or ""))
    kind = style[1].lower() if style else _NUMBERING.get(str(numbered.get("type") or ""), "")
    write = _WRITTEN.get(kind.replace("latin", "alpha").partition("-")[2])
    written = write(number) if write and 0 < number < _MAX_ROMAN else str(number)
    return f"{written.upper() if kind.startswith('upper') else written}. "


def _number(item: Tag, numbered: Tag) -> int:
    items = list(numbered.find_all("li", recursive=False))
    step = -1 if numbered.has_attr("reversed") else 1
    number = _integer(numbered.get("start"), default=len(items) if step < 0 else 1)
    for each in items:
        number = _integer(each.get("value"), default=number)
        if each is item:
            break
        number += step
    return number


def _integer(value: Any, *, default: int) -> int:
    try:
        return int(str(value).strip()) if value is not None else default
    except ValueError:
        return default


def _alphabetic(number: int) -> str:
    letters = ""
    while number:
        number, rest = divmod(number - 1, _LETTERS)
        letters = chr(ord("a") + rest) + letters
    return letters


def _roman(number: int) -> str:
    written = ""
    for value, letters in _ROMAN:
        count, number = divmod(number, value)
        written += letters * count
    return written


_WRITTEN: Final[dict[str, Callable[[int], str]]] = {"alpha": _alphabetic, "roman": _roman}
