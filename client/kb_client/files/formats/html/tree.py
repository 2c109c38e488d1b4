"""Parses HTML as browsers do, into a tree of Beautiful Soup."""

import re
from html import escape
from typing import TYPE_CHECKING, Any, Final

from bs4 import BeautifulSoup, PageElement, Tag
from bs4.builder import HTMLTreeBuilder

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_XML_DECLARATION: Final = re.compile(r"\A\s*<\?xml[^>]*\?>")
_XHTML: Final = re.compile(r"\A\s*<\?xml\s|<!doctype\s[^>]*//dtd xhtml|<html\s[^>]*xmlns\s*=", re.IGNORECASE)
_WITHIN_CHARACTERS: Final = 2_000
_CLOSED_AT_ONCE: Final = re.compile(
    r"<(title|script|style|textarea|iframe|noscript|noframes)\b([^<>]*)/>", re.IGNORECASE
)
_CDATA: Final = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_SHADOW_ROOT: Final = "shadowrootmode"
_MOST_INNER_DOCUMENTS: Final = 1_000
_MOST_LEVELS: Final = 20
"""Limits of documents in documents, by `srcdoc` and templates: a few bytes could nest them without end."""
_DEEPEST: Final = 1_000
"""Elements around an element: about three times as many as can be written as Markdown. Browsers show 512."""


def parse_html(markup: str) -> BeautifulSoup:
    """Return the tree that a browser makes of a page, with inner documents and shadow roots in their places."""
    if _XHTML.search(markup[:_WITHIN_CHARACTERS]):
        # Within these elements, HTML sees no markup until they end.
        markup = _CLOSED_AT_ONCE.sub(r"<\1\2></\1>", markup)
        markup = _CDATA.sub(lambda found: escape(found[1], quote=False), markup)
    soup = BeautifulSoup(_XML_DECLARATION.sub("", markup), builder=_LexborTreeBuilder(string_containers={}))
    for root in soup.find_all(attrs={_SHADOW_ROOT: True}):
        _fill_slots(root)
    return soup


def _fill_slots(root: Tag) -> None:
    """Move what is in an element to the places that its shadow root has for it."""
    outside: dict[str, list[PageElement]] = {}
    for each in root.parent.children:
        if each is not root and (isinstance(each, Tag) or str(each).strip()):
            outside.setdefault(_slot_of(each), []).append(each)
    for slot in root.find_all("slot"):
        # Of two slots with one name, the first has all.
        if slot.find_parent(attrs={_SHADOW_ROOT: True}) is root and (
            assigned := outside.pop(str(slot.get("name") or ""), None)
        ):
            slot.clear()
            slot.extend(assigned)


def _slot_of(element: PageElement) -> str:
    return str(element.get("slot") or "") if isinstance(element, Tag) else ""


class _LexborTreeBuilder(HTMLTreeBuilder):  # type: ignore[misc]  # bs4 is not typed for us
    """Makes the tree of Beautiful Soup of that of Lexbor, which parses by the standard of browsers."""

    NAME = "lexbor"
    features = ("lexbor",)

    def feed(self, markup: Any) -> None:
        from selectolax.lexbor import LexborHTMLParser

        self._inner_documents = 0
        self._copy(LexborHTMLParser(markup).root, level=0)

    def _copy(self, root: "LexborNode | None", *, level: int) -> None:
        """Copy a node with all below it. Raises RecursionError, as whatever else goes through such a tree."""
        soup: Any = self.soup
        opened: list[tuple[LexborNode, str]] = []
        node = root
        while node is not None:
            if node.is_text_node:
                soup.handle_data(node.text_content or "")
            elif node.is_element_node:
                name = self._open(node, level=level)
                if node.first_child is not None and node.tag != "noframes":
                    if len(opened) >= _DEEPEST:
                        raise RecursionError
                    opened.append((node, name))
                    node = node.first_child
                    continue
                soup.handle_endtag(name)
            following = node.next if opened else None
            while following is None and opened:
                closed, name = opened.pop()
                soup.handle_endtag(name)
                following = closed.next if opened else None
            node = following

    def _open(self, node: "LexborNode", *, level: int) -> str:
        """Begin an element with what its attributes and its template contain, and return its name."""
        from selectolax.lexbor import LexborHTMLParser

        soup: Any = self.soup
        attributes = dict(node.attributes)
        is_shown = _SHADOW_ROOT in attributes or (node.tag == "iframe" and bool(attributes.get("srcdoc")))
        name = "div" if is_shown else str(node.tag)
        soup.handle_starttag(name, None, None, attributes)
        inner: list[LexborNode | None] = []
        if node.tag == "template":
            inner = [child for fragment in node.template_fragments()[:1] for child in _children(fragment)]
        elif node.tag == "noframes":
            inner = [LexborHTMLParser(node.text()).body]
        elif is_shown:
            inner = [LexborHTMLParser(str(attributes["srcdoc"])).body]
        for each in inner:
            self._inner_documents += 1
            if self._inner_documents <= _MOST_INNER_DOCUMENTS and level < _MOST_LEVELS:
                self._copy(each, level=level + 1)
        return name


def _children(node: "LexborNode") -> "list[LexborNode]":
    children = []
    child = node.first_child
    while child is not None:
        children.append(child)
        child = child.next
    return children
