"""Renders passages of documents as people read them: Markdown, in which words of a query can be marked."""

from collections.abc import Iterable
from typing import Any, Final

from markupsafe import Markup, escape

from kb_console.safe_markdown import create_renderer
from kb_contracts.api.search import Highlight

_BEGIN: Final = "\ufdd0"
_END: Final = "\ufdd1"
"""Characters that no text has, as Unicode says: they go through the parser where a mark begins and ends."""


def render_passage(text: str, highlights: Iterable[Highlight] = ()) -> Markup:
    """Return a passage as markup; every line of it stays a line.

    Args:
        text: the passage.
        highlights: words to mark, in their order and without overlap.
    """
    rendered: str = _MARKDOWN.render(_with_marks(text, highlights), {"is_marked": False})
    return Markup(rendered)  # noqa: S704  # nosec B704  # the renderer escapes the passage


def _with_marks(text: str, highlights: Iterable[Highlight]) -> str:
    if _BEGIN in text or _END in text:
        return text.replace(_BEGIN, "").replace(_END, "")
    parts, at = [], 0
    for highlight in highlights:
        parts += [text[at : highlight.start], _BEGIN, text[highlight.start : highlight.end], _END]
        at = highlight.end
    return "".join([*parts, text[at:]])


def _escape_with_marks(text: str, env: dict[str, bool]) -> Markup:
    """Return a text, escaped. A mark that begins in one token and ends in another is closed and opened between them."""
    parts: list[Markup] = []
    for number, piece in enumerate(text.replace(_END, _BEGIN).split(_BEGIN)):
        if number:
            env["is_marked"] = not env["is_marked"]
        if piece:
            parts.append(Markup("<mark>{}</mark>").format(piece) if env["is_marked"] else escape(piece))
    return Markup("").join(parts)


def _render_text(_renderer: object, *call: Any) -> str:
    tokens, index, _options, env = call
    return _escape_with_marks(tokens[index].content, env)


def _render_code(_renderer: object, *call: Any) -> str:
    return f"<code>{_render_text(_renderer, *call)}</code>"


def _render_block(_renderer: object, *call: Any) -> str:
    # Without the language of a fence, which would become a class.
    return f'<pre tabindex="0">{_render_code(_renderer, *call)}</pre>\n'


_MARKDOWN: Final = create_renderer(
    {"text": _render_text, "code_inline": _render_code, "fence": _render_block}, breaks=True
).disable("code")
"""Without code by indentation: texts that were read from pages are indented for other reasons."""
