"""Characters of the symbol fonts of Office, which have no meaning of their own in Unicode."""

from typing import Final

_PRIVATE_USE: Final = 0xF000
"""Office stores the characters of symbol fonts here, at their place in the font."""
_SYMBOL: Final = dict(
    zip(
        range(0x21, 0x7F),
        "!∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_\u203eαβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼",  # noqa: RUF001  # that font has them
        strict=True,
    )
) | dict(
    zip(
        range(0xA1, 0xFF),
        "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪ 〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭",  # noqa: RUF001  # that font has them
        strict=True,
    )
)
_WINGDINGS: Final = {
    0x22: "✂", 0x28: "☎", 0x29: "✆", 0x2A: "✉", 0x33: "🖹", 0x36: "⌛", 0x3F: "✍", 0x41: "✌", 0x43: "👍", 0x44: "👎",
    0x45: "☜", 0x46: "☞", 0x47: "☝", 0x48: "☟", 0x4A: "☺", 0x4B: "😐", 0x4C: "☹", 0x4D: "💣", 0x4E: "☠", 0x6C: "●",
    0x6D: "❍", 0x6E: "■", 0x6F: "☐", 0x71: "❑", 0x72: "❒", 0x73: "⬧", 0x74: "⧫", 0x75: "◆", 0x76: "❖", 0x77: "⬥",
    0x78: "☒", 0x80: "⓪", 0x81: "①", 0x82: "②", 0x83: "③", 0x84: "④", 0x85: "⑤", 0x86: "⑥", 0x87: "⑦", 0x88: "⑧",
    0x89: "⑨", 0x8A: "⑩", 0x9F: "•", 0xA1: "○", 0xA7: "▪", 0xA8: "☐", 0xAB: "★", 0xD8: "➢", 0xDF: "←", 0xE0: "→",
    0xE1: "↑", 0xE2: "↓", 0xE8: "➔", 0xEF: "⇦", 0xF0: "⇨", 0xF3: "⇔", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
}  # fmt: skip
_WINGDINGS_2: Final = {
    0x4F: "✗", 0x50: "✓", 0x51: "☒", 0x52: "☑", 0x53: "☒", 0x54: "☒", 0x97: "●", 0xA3: "☐",
}  # fmt: skip
_FONTS: Final = {"symbol": _SYMBOL, "wingdings": _WINGDINGS, "wingdings 2": _WINGDINGS_2}
UNKNOWN: Final = "\ufffd"


def is_symbol_font(font: str | None) -> bool:
    return (font or "").lower() in _FONTS


def symbol(code: int, font: str | None) -> str:
    """Return the character at a place of a symbol font; `UNKNOWN` if it has no counterpart."""
    place = code - _PRIVATE_USE if code >= _PRIVATE_USE else code
    known = _FONTS.get((font or "").lower())
    if known is None:
        return chr(code) if code < _PRIVATE_USE else UNKNOWN
    return " " if place == ord(" ") else known.get(place, UNKNOWN)


def in_symbol_font(text: str, font: str | None) -> str:
    """Return a text that is set in a symbol font as it looks."""
    return "".join(symbol(ord(character), font) for character in text)
