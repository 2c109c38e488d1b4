"""Decides what of a page a reader sees, or sees after one click, and what only surrounds its text."""

import re
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final

from kb_client.files.formats.html.inline_style import hides, hides_inner, sets_size, shows_itself
from kb_client.files.formats.html.style_rules import find_hidden_by_styles

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_NEVER_SHOWN: Final = [
    *("title", "script", "style", "link", "meta", "datalist", "rp", "annotation", "annotation-xml"),
    *("video", "audio", "canvas"),
]
_SHOWN_WITHOUT_OTHER_TEXT: Final = ["noscript", "noframes", "template", "object", "iframe"]
"""Elements whose text browsers show only if they don't know the element, can't load it, or run no scripts."""
_CLICKABLE: Final = (
    "button, summary, label, [onclick], [role=button], [role=tab], [aria-expanded], [aria-controls], [data-toggle],"
    " [data-bs-toggle], a[href='#'], a:not([href]), a[href^='javascript:']"
)
_OPENED_BY: Final = (
    "aria-controls",
    "aria-owns",
    "popovertarget",
    "commandfor",
    "data-target",
    "data-bs-target",
    "data-tab",
    "href",
)
"""Attributes by which something that can be clicked names the element that it opens."""
_PANEL: Final = re.compile(
    r"(?:^|[-_ ])(?:tab|tabs|accordion|collapse|collapsible|panel|faq|spoiler|toggle|expand|expander|expandable"
    r"|more|readmore|carousel|slide|slider|swiper)(?:$|[-_ ])",
    re.IGNORECASE,
)
_PANELS: Final = re.compile(r"(?:^|[-_ ])(?:tabs|accordion|faq)(?:$|[-_ ])", re.IGNORECASE)
_NOT_ON_THE_SCREEN: Final = re.compile(
    r"(?:^| )(?:sr-only|(?:u-)?visually-?hidden|screen-reader-(?:text|only)|a-offscreen)(?: |$)", re.IGNORECASE
)
"""Classes of texts that screen readers say in place of what is seen, often the same in other words."""
_ICON: Final = re.compile(r"icon|symbol|glyph|(?:^|-)fa(?:$|-)", re.IGNORECASE)
_LITTLE_TEXT: Final = 200
"""Number of characters that may be less than the text of a page."""
_LEAST_SEEN: Final = 0.02
"""Share of what is hidden that is seen at least, unless the page shows itself by a script at last."""
_LEAST_BESIDE: Final = 0.2
"""Share of what surrounds a text that the text of a page has at least, however short it is."""
_MOST: Final = 0.5
_OF_A_TEXT: Final = ["article", "main", "blockquote", "figure", "td", "li"]
"""Elements of which a header, a footer or an aside is a part, and not one of the page."""
_ASKS_FOR_SCRIPTS: Final = re.compile(r"java\s?-?script", re.IGNORECASE)
_MOST_OF_A_REQUEST: Final = 400


def keep_shown(soup: "BeautifulSoup", *, of_mail: bool = False) -> None:
    """Remove what a reader of the page neither sees nor can open by a click.

    Args:
        soup: the page.
        of_mail: also what styles hide that in a page of a site may be undone by a click or a script.
    """
    by_style = set(map(id, find_hidden_by_styles(soup))) if of_mail else set()
    _remove(soup.find_all(_NEVER_SHOWN))
    replaced = [
        each for each in soup.find_all(_SHOWN_WITHOUT_OTHER_TEXT) if each.name != "object" or each.has_attr("data")
    ]
    _remove_unless_text(soup, replaced, least=1, unless=_asks_for_scripts)
    elements = soup.find_all(True)
    styled = [each for each in elements if each.has_attr("style")]
    resized = _around(filter(sets_size, styled))
    hidden = [each for each in elements if id(each) in by_style or _is_hidden(each, resized)]
    if hidden:
        opened, clickable = _find_opened(elements), set(map(id, soup.select(_CLICKABLE)))
        never_seen = [
            each for each in hidden if id(each) in by_style or not _can_be_opened(each, opened, clickable=clickable)
        ]
        around_shown = _around(filter(shows_itself, styled))
        _remove_unless_text(soup, _hidden_parts(never_seen, around_shown, resized), least=_LEAST_SEEN)
    _remove([each for each in elements if not _is_removed(each) and _is_decoration(each)])


def _hidden_parts(hidden: "Iterable[Tag]", around_shown: set[int], resized: set[int]) -> "list[Tag]":
    """Return what to remove of hidden elements: all, or what is beside the parts of them that show themselves.

    Args:
        hidden: elements, in the order of the page.
        around_shown: identities of the elements around parts that show themselves.
        resized: identities of the elements around texts with a size of their own.
    """
    parts: dict[int, Tag] = {}
    seen: set[int] = set()
    for element in hidden:
        left = [element]
        while left:
            outer = left.pop()
            if id(outer) in seen:
                continue
            seen.add(id(outer))
            if id(outer) in around_shown and not _is_hidden_whole(outer, resized):
                for text in outer.find_all(string=True, recursive=False):
                    text.extract()
                left.extend(each for each in outer.find_all(True, recursive=False) if not shows_itself(each))
            else:
                parts[id(outer)] = outer
    return list(parts.values())


def _around(elements: "Iterable[Tag]") -> set[int]:
    """Return the identities of all elements around others."""
    around: set[int] = set()
    for each in elements:
        for parent in each.parents:
            if id(parent) in around:
                break
            around.add(id(parent))
    return around


def keep_text(soup: "BeautifulSoup", *, of_site: bool) -> "Tag":
    """Remove navigation, and return the element with the text of the page.

    Args:
        of_site: also leave out what usually surrounds the text on each page of a site.
    """
    _remove_unless_text(soup, soup.find_all(_is_navigation), least=_LEAST_BESIDE)
    main = _find_main(soup)
    if main is None and of_site:
        _remove_unless_text(soup, soup.find_all(_is_around_the_text), least=_LEAST_BESIDE)
    return main or soup


def text_size(element: "Tag") -> int:
    """Return the number of characters of a text without white space."""
    return sum(len("".join(text.split())) for text in element.strings)


def _find_main(soup: "BeautifulSoup") -> "Tag | None":
    """Return the element that the page marks as its main part, if that holds most of the text."""
    marked = soup.find_all(_is_main) or soup.find_all("article")
    if len(marked) != 1:
        return None
    beside = sum(map(text_size, _outermost(soup.find_all(_is_around_the_text), outside=marked[0])))
    size = text_size(marked[0])
    return marked[0] if size and size >= _MOST * (text_size(soup) - beside) else None


def _remove(elements: "Iterable[Tag]") -> None:
    for each in elements:
        if not _is_removed(each):
            each.decompose()


def _is_removed(element: "Tag") -> bool:
    # Not `element.decomposed`: while the attribute is not there, Beautiful Soup looks for an element with its name.
    return bool(vars(element).get("_decomposed"))


def _remove_unless_text(
    soup: "BeautifulSoup",
    elements: "Collection[Tag]",
    *,
    least: float,
    unless: "Callable[[Tag], bool] | None" = None,
) -> None:
    """Remove elements, unless the text of the page is in them.

    Args:
        soup: the page.
        elements: what usually is no text of a page.
        least: share of their text that the rest of the page must have, or 200 characters.
        unless: whether an element is removed in any case.
    """
    outermost = _outermost(elements)
    removed = sum(map(text_size, outermost))
    rest = text_size(soup) - removed
    is_enough = rest > 0 and rest >= min(_LITTLE_TEXT, least * removed)
    for each in outermost:
        if is_enough or not text_size(each) or (unless is not None and unless(each)):
            each.decompose()


def _outermost(elements: "Iterable[Tag]", *, outside: "Tag | None" = None) -> "list[Tag]":
    """Return the elements that are in none of the others.

    Args:
        elements: in the order of the page.
        outside: element that they must neither be in nor around.
    """
    inside = set() if outside is None else set(map(id, (outside, *outside.parents, *outside.find_all(True))))
    outermost = []
    for each in elements:
        if id(each) not in inside:
            outermost.append(each)
            inside.update(map(id, each.find_all(True)))
    return outermost


def _is_main(element: "Tag") -> bool:
    return element.name == "main" or bool(element.get("role") == "main")


def _is_around_the_text(element: "Tag") -> bool:
    if element.name in ("header", "footer", "aside") and element.find_parent(_OF_A_TEXT) is not None:
        return False
    if element.name == "header":
        return element.find("h1") is None
    if element.name == "aside" and element.find("blockquote") is not None:
        return False
    return element.name in ("footer", "aside") or element.get("role") in ("banner", "contentinfo")


def _is_navigation(element: "Tag") -> bool:
    """Return whether an element is a list of links to other pages, and no text that happens to stand there."""
    if element.name != "nav" and element.get("role") != "navigation":
        return False
    links = sum(map(text_size, _outermost(element.find_all(["a", "button", "summary", "label", "h2", "h3", "h4"]))))
    return links >= _MOST * text_size(element)


def _is_hidden(element: "Tag", resized: set[int]) -> bool:
    return hides_inner(element) or _is_hidden_whole(element, resized)


def _is_hidden_whole(element: "Tag", resized: set[int]) -> bool:
    """Return whether nothing in an element is seen, whatever it says for itself."""
    if element.has_attr("hidden") or element.has_attr("popover"):
        return True
    if element.name == "dialog":
        return not element.has_attr("open")
    if element.has_attr("style") and hides(element, is_resized=id(element) in resized):
        return True
    return bool(_NOT_ON_THE_SCREEN.search(_names_of(element)))


def _names_of(element: "Tag") -> str:
    """Return the classes and the id of an element."""
    return " ".join(name for name in (*element.get_attribute_list("class"), element.get("id")) if name)


def _find_opened(elements: "Iterable[Tag]") -> set[str]:
    """Return the ids of elements that something that can be clicked opens."""
    values = (str(each.get(name) or "") for each in elements for name in _OPENED_BY if each.has_attr(name))
    return {word.removeprefix("#") for value in values for word in value.split()}


def _can_be_opened(element: "Tag", opened: set[str], *, clickable: set[int]) -> bool:
    """Return whether one click shows an element.

    Args:
        element: that is hidden.
        opened: ids of the elements that something that can be clicked names.
        clickable: identities of the elements that can be clicked.
    """
    if element.get("role") == "tabpanel" or element.get("hidden") == "until-found" or element.get("id") in opened:
        return True
    if _PANEL.search(_names_of(element)) or (element.parent and _PANELS.search(_names_of(element.parent))):
        return True
    before = element.find_previous_sibling()
    return before is not None and (id(before) in clickable or _is_switch(before, clickable))


def _is_switch(element: "Tag", clickable: set[int]) -> bool:
    """Return whether nearly all of an element, such as a heading, can be clicked."""
    inside = next((each for each in element.find_all(True) if id(each) in clickable), None)
    return inside is not None and text_size(inside) >= _MOST * text_size(element)


def _is_decoration(element: "Tag") -> bool:
    """Return whether an element is a link to its heading, or, where screen readers leave it out, an icon or a mark."""
    classes = " ".join(name for name in element.get_attribute_list("class") if name)
    if element.name == "a" and not {"headerlink", "anchor"}.isdisjoint(classes.split()):
        return True
    if element.get("aria-hidden") != "true":
        return False
    if "katex-html" in classes.split():
        # The same formula is there in MathML.
        return True
    words = element.get_text(" ").split()
    return not any(map(str.isalnum, "".join(words))) or (
        len(words) == 1 and (element.name == "i" or bool(_ICON.search(classes)))
    )


def _asks_for_scripts(element: "Tag") -> bool:
    return text_size(element) <= _MOST_OF_A_REQUEST and bool(_ASKS_FOR_SCRIPTS.search(element.get_text(" ")))
