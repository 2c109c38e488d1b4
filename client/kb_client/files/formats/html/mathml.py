"""Writes formulas in MathML on one line."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kb_client.files.formats.text.superscripts import subscript, superscript

if TYPE_CHECKING:
    from bs4 import Tag

_LEFT_OUT: Final = frozenset({"annotation", "annotation-xml", "mphantom", "mspace"})
_SPACED: Final = frozenset("=<>≤≥≠≈≡±→⇒∈+∝\u2212")
_INVISIBLE: Final = str.maketrans("", "", "\u2061\u2062\u2063\u2064\u200b")


def formula_to_text(element: "Tag") -> str:
    """Return a formula as it is typed: `E = mc^2`, `(a + b)/2`, `√(x)`."""
    return " ".join(_write(element).split())


def _write(element: "Tag") -> str:
    from bs4 import Tag

    if element.name in _LEFT_OUT:
        return ""
    children = [_write(each) for each in element.children if isinstance(each, Tag)]
    if not children:
        return _write_token(element)
    arrange = _ARRANGEMENTS.get(element.name)
    return arrange(children) if arrange else "".join(children)


def _write_token(element: "Tag") -> str:
    text = " ".join(element.get_text().translate(_INVISIBLE).split())
    if element.name == "mo" and text in _SPACED and element.find_previous_sibling() is not None:
        return f" {text} "
    return text


def _raise(parts: Sequence[str]) -> str:
    return parts[0] + "".join(superscript(part.strip(), after="") for part in parts[1:2])


def _lower(parts: Sequence[str]) -> str:
    return parts[0] + "".join(subscript(part.strip()) for part in parts[1:2])


def _raise_and_lower(parts: Sequence[str]) -> str:
    return _lower(parts[:2]) + "".join(superscript(part.strip(), after="") for part in parts[2:3])


def _divide(parts: Sequence[str]) -> str:
    return "/".join(map(_in_brackets, parts))


def _root(parts: Sequence[str]) -> str:
    index = parts[1].strip() if len(parts) > 1 else ""
    return f"{index}√({parts[0].strip()})" if index else f"√({parts[0].strip()})"


def _in_brackets(part: str) -> str:
    return part if part.strip().isalnum() else f"({part.strip()})"


_ARRANGEMENTS: Final[Mapping[str, Callable[[Sequence[str]], str]]] = {
    "msup": _raise,
    "mover": _raise,
    "msub": _lower,
    "munder": _lower,
    "msubsup": _raise_and_lower,
    "munderover": _raise_and_lower,
    "mfrac": _divide,
    "msqrt": lambda parts: f"√({''.join(parts).strip()})",
    "mroot": _root,
    "mtr": " ; ".join,
    "mtable": " | ".join,
    "mfenced": lambda parts: f"({', '.join(parts)})",
}
