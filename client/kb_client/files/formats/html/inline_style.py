"""Reads the `style` of an element: whether it hides the element, and whether it makes it a block."""

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bs4 import Tag

_DECLARATION: Final = re.compile(r"""(?:^|;)\s*([\w-]+)\s*:((?:[^;()"']|\([^()]*\)|"[^"]*"|'[^']*')*)""")
_IMPORTANT: Final = "!important"
_FAR_OFF: Final = re.compile(r"-\d{3,}(?:\.\d+)?(?:px|em|rem|vw)")
_ONLY_A_DOT: Final = re.compile(r"rect\(\s*[01](?:px)?\b")
_NOTHING: Final = re.compile(r"0(?:\.0+)?(?:px|pt|em|rem|%)?")
_BLOCKS: Final = ("block", "flex", "grid", "list-item", "table", "flow-root")


def hides(element: "Tag", *, is_resized: bool) -> bool:
    """Return whether nothing in an element is seen because of its own style.

    What is transparent counts as seen: scripts let such texts appear while a reader scrolls.

    Args:
        element: with a style.
        is_resized: whether a part of it has a size of its own.
    """
    style = _declarations(element)
    if style.get("display") == "none":
        return True
    if style.get("position") in ("absolute", "fixed") and (
        any(_FAR_OFF.fullmatch(style.get(side, "")) for side in ("left", "top", "right", "bottom"))
        or _ONLY_A_DOT.match(style.get("clip", ""))
    ):
        return True
    return not is_resized and _NOTHING.fullmatch(style.get("font-size", "")) is not None


def hides_inner(element: "Tag") -> bool:
    """Return whether what is in an element is hidden, unless that says otherwise for itself."""
    return _declarations(element).get("visibility") in ("hidden", "collapse")


def shows_itself(element: "Tag") -> bool:
    """Return whether an element is seen within one that `hides_inner`."""
    return _declarations(element).get("visibility") == "visible"


def sets_size(element: "Tag") -> bool:
    return "font-size" in _declarations(element)


def is_block(element: "Tag") -> bool:
    return _declarations(element).get("display") in _BLOCKS


def _declarations(element: "Tag") -> dict[str, str]:
    """Return the values of the properties, of each the one that counts."""
    found: dict[str, str] = {}
    important: dict[str, str] = {}
    for name, written in _DECLARATION.findall(str(element.get("style") or "").lower()):
        value = " ".join(written.split())
        if value.replace(" ", "").endswith(_IMPORTANT):
            important[name] = value.partition("!")[0].strip()
        else:
            found[name] = value
    return found | important
