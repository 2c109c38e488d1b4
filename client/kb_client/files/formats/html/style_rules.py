"""Finds what styles of a mail hide: rules for one class, id, or element with one of them, and those of elements."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_COMMENT: Final = re.compile(r"/\*.*?(?:\*/|\Z)|<!--|-->", re.DOTALL)
_BRACE: Final = re.compile(r"([^{}]*)([{}]|\Z)")
_SELECTOR: Final = re.compile(r"(?P<tag>[a-z][a-z0-9]*)?(?P<name>[.#][\w-]+)", re.IGNORECASE)
_DECLARATION: Final = re.compile(
    r"(?:^|[;\s])(?P<property>display|visibility)\s*:\s*(?P<value>[\w-]+)\s*(?P<important>!\s*important)?",
    re.IGNORECASE,
)
_ON_SCREENS: Final = re.compile(r"@media\s+(?:only\s+)?(?:screen|all)\s*", re.IGNORECASE)
_MEDIA: Final = ("", "all", "screen")
_HIDING: Final = frozenset({("display", "none"), ("visibility", "hidden")})

_NOTHING: Final = re.compile(r"0+(?:\.0*)?(?:[a-z]{2,3}|%)?(?:\s*!\s*important)?")

_Weight = tuple[bool, bool, bool, int]
"""Weight of a declaration: if it is important, of an id, and of an element, too; its place. The highest counts."""
_Rules = dict[tuple[str, str, str], tuple[_Weight, bool]]
"""By element, name and property: the weight of the declaration that counts, and whether it hides."""
_NO_RULE: Final = ((False, False, False, -1), False)


def find_hidden_by_styles(soup: "BeautifulSoup") -> "list[Tag]":
    """Return the elements that style sheets in a mail hide on every screen, and those without colour, height or size.

    Rules with other selectors are taken for none.
    """
    rules: _Rules = {}
    sheets = (each for each in soup.find_all("style") if str(each.get("media") or "").strip().lower() in _MEDIA)
    blocks = (block for sheet in sheets for block in _read_blocks("".join(map(str, sheet.contents))))
    for place, (selectors, declarations) in enumerate(blocks):
        _add_rules(selectors, declarations, place=place, rules=rules)
    return [each for each in soup.find_all(True) if _is_hidden(each, rules) or _shows_nothing(each)]


def _read_blocks(sheet: str) -> Iterator[tuple[str, str]]:
    """Yield selectors and declarations of each rule that holds on all screens."""
    around: list[str] = []
    for found in _BRACE.finditer(_COMMENT.sub("", sheet)):
        text, brace = found.groups()
        if brace == "{":
            # What ends before it with a semicolon is an import, or a declaration of the rule around it.
            around.append(text.rpartition(";")[2].strip())
        elif brace and around:
            selectors = around.pop()
            if not around or (len(around) == 1 and _ON_SCREENS.fullmatch(around[0])):
                yield selectors, text


def _add_rules(selectors: str, declarations: str, *, place: int, rules: _Rules) -> None:
    found = list(_DECLARATION.finditer(declarations))
    for selector in selectors.split(",") if found else ():
        if named := _SELECTOR.fullmatch(selector.strip()):
            tag, name = (named["tag"] or "").lower(), named["name"]
            for each in found:
                kind = each["property"].lower()
                rule = (
                    (bool(each["important"]), name.startswith("#"), bool(tag), place),
                    (kind, each["value"].lower()) in _HIDING,
                )
                rules[tag, name, kind] = max(rules.get((tag, name, kind), _NO_RULE), rule)


def _is_hidden(element: "Tag", rules: _Rules) -> bool:
    names = [f".{name}" for name in element.get_attribute_list("class") if name]
    names += [f"#{element['id']}"] if element.get("id") else []
    own = {
        each["property"].lower(): bool(each["important"])
        for each in _DECLARATION.finditer(str(element.get("style") or ""))
    }
    for kind in ("display", "visibility"):
        keys = [(tag, name, kind) for name in names for tag in ("", str(element.name))]
        (important, *_), hides = max((rules.get(key, _NO_RULE) for key in keys), default=_NO_RULE)
        # What an element says of itself counts more, unless the rule is important.
        if hides and (kind not in own or (important and not own[kind])):
            return True
    return False


def _shows_nothing(element: "Tag") -> bool:
    """Return whether an element is there, but takes no place or has no colour."""
    style = str(element.get("style") or "").lower()
    own = {name.strip(): value.strip() for name, _, value in (each.partition(":") for each in style.split(";"))}
    nothing = {name for name, value in own.items() if _NOTHING.fullmatch(value)}
    is_cut = own.get("overflow", "").startswith("hidden") and not nothing.isdisjoint({"height", "max-height"})
    # Elements of text within have sizes of their own.
    return "opacity" in nothing or is_cut or ("font-size" in nothing and element.find(True) is None)
