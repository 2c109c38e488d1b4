"""Equations of Word and PowerPoint in one line, as they are typed there: `x=(-b±√(b^2-4ac))/(2a)`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kb_client.files.formats.text.superscripts import subscript

if TYPE_CHECKING:
    from lxml.etree import _Element

MATH: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_VALUE: Final = f"{MATH}val"
_DEFAULT_OPERATOR: Final = "∫"
_MAX_DEPTH: Final = 60
_ACCENTS: Final = {"\u0302": "^", "\u0304": "¯", "\u20d7": "→", "\u0303": "~"}


def equation_text(element: "_Element", depth: int = 0) -> str:
    """Return the text of an element of an equation."""
    if depth > _MAX_DEPTH:
        return "".join(element.itertext(f"{MATH}t"))
    if not isinstance(element.tag, str):
        return ""
    name = element.tag.rpartition("}")[2]
    if name == "t":
        return element.text or ""
    if name.endswith("Pr"):
        return ""
    if element.tag.startswith(MATH) and name in _WRITTEN:
        return _WRITTEN[name](_EquationParts(element, depth + 1))
    return "".join(equation_text(child, depth + 1) for child in element)


class _EquationParts:
    """Named parts of an element, such as its numerator."""

    def __init__(self, element: "_Element", depth: int) -> None:
        self._element = element
        self._depth = depth

    def text(self, name: str) -> str:
        found = self._element.find(f"{MATH}{name}")
        return "" if found is None else equation_text(found, self._depth).strip()

    def texts(self, name: str) -> list[str]:
        return [equation_text(found, self._depth).strip() for found in self._element.findall(f"{MATH}{name}")]

    def operand(self, name: str = "e") -> str:
        """Return a part as it stands beside an operator: in parentheses if it is more than one term."""
        text = self.text(name)
        return text if len(text) <= 1 or text.isalnum() or _is_enclosed(text) else f"({text})"

    def setting(self, name: str, default: str) -> str:
        properties = next((child for child in self._element if str(child.tag).endswith("Pr")), None)
        found = None if properties is None else properties.find(f"{MATH}{name}")
        return default if found is None else found.get(_VALUE, "")

    def rows(self) -> list[list[str]]:
        return [_EquationParts(row, self._depth).texts("e") for row in self._element.findall(f"{MATH}mr")]


def _is_enclosed(text: str) -> bool:
    """Return whether a text is one pair of parentheses with what is in it."""
    if not (text.startswith("(") and text.endswith(")")):
        return False
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and at < len(text) - 1:
            return False
    return True


def _below(parts: _EquationParts) -> str:
    text = parts.text("sub")
    return subscript(text) if text.isdigit() else f"_{parts.operand('sub')}" if text else ""


def _above(parts: _EquationParts) -> str:
    return f"^{parts.operand('sup')}" if parts.text("sup") else ""


def _fraction(parts: _EquationParts) -> str:
    return f"{parts.operand('num')}/{parts.operand('den')}"


def _root(parts: _EquationParts) -> str:
    degree = parts.text("deg")
    sign = {"": "√", "2": "√", "3": "∛", "4": "∜"}.get(degree)
    return f"{sign}({parts.text('e')})" if sign else f"root({degree}, {parts.text('e')})"


def _many(parts: _EquationParts) -> str:
    return f"{parts.setting('chr', _DEFAULT_OPERATOR)}{_below(parts)}{_above(parts)} {parts.text('e')}"


def _enclosed(parts: _EquationParts) -> str:
    between = parts.setting("sepChr", "|")
    return f"{parts.setting('begChr', '(')}{between.join(parts.texts('e'))}{parts.setting('endChr', ')')}"


def _function(parts: _EquationParts) -> str:
    name, argument = parts.text("fName"), parts.text("e")
    return f"{name}{argument}" if argument.startswith(("(", "[")) else f"{name} {argument}"


def _matrix(parts: _EquationParts) -> str:
    return "; ".join(", ".join(row) for row in parts.rows())


def _accented(parts: _EquationParts) -> str:
    accent = parts.setting("chr", "\u0302")
    return f"{parts.operand()}{_ACCENTS.get(accent, accent)}"


_WRITTEN: Final[dict[str, Callable[[_EquationParts], str]]] = {
    "f": _fraction,
    "sSup": lambda parts: f"{parts.operand()}{_above(parts)}",
    "sSub": lambda parts: f"{parts.operand()}{_below(parts)}",
    "sSubSup": lambda parts: f"{parts.operand()}{_below(parts)}{_above(parts)}",
    "sPre": lambda parts: f"{_below(parts)}{_above(parts)}{parts.text('e')}",
    "rad": _root,
    "nary": _many,
    "d": _enclosed,
    "func": _function,
    "m": _matrix,
    "eqArr": lambda parts: "; ".join(parts.texts("e")),
    "limLow": lambda parts: f"{parts.text('e')}_({parts.text('lim')})",
    "limUpp": lambda parts: f"{parts.text('e')}^({parts.text('lim')})",
    "acc": _accented,
    "bar": lambda parts: f"{parts.operand()}¯",
}
