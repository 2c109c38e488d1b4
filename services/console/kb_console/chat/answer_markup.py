"""Renders answers of models: Markdown without HTML, images and links, in which citations are chips.

Nothing of an answer becomes markup but what the renderer itself makes, from escaped text.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from markupsafe import Markup, escape

from kb_console.chat.json_answers import begins_as_json, parse_json_answer, render_json
from kb_console.safe_markdown import create_renderer
from kb_contracts.api.runs import CitationView

AddressOfPassage: TypeAlias = Callable[[CitationView], str]

_MARK: Final = re.compile(r"\[(\d{1,6}(?:,[ ]?\d{1,6}){0,50})\]")


def _render_text(_renderer: object, *call: Any) -> str:
    tokens, index, _options, env = call
    return _with_chips(tokens[index].content, env["cited"], env["address_of"])


_MARKDOWN: Final = create_renderer({"text": _render_text})


def render_answer(
    text: str, cited: Mapping[int, CitationView], address_of: AddressOfPassage, *, violations: Sequence[str] = ()
) -> Markup:
    """Return an answer as markup. `[n]` is a chip where `n` is cited, and text elsewhere.

    Args:
        text: the answer, or its beginning.
        cited: passages by number.
        address_of: returns the address of a passage.
        violations: of the schema, in an answer that is JSON.
    """
    if (value := parse_json_answer(text)) is not None:
        return render_json(value, violations, lambda part: _with_chips(part, cited, address_of))
    if begins_as_json(text):
        return Markup('<pre class="json"><bdi>{}</bdi></pre>').format(_with_chips(text, cited, address_of))
    rendered: str = _MARKDOWN.render(text, {"cited": cited, "address_of": address_of})
    return Markup(rendered)  # noqa: S704  # nosec B704  # the renderer escapes the answer


def find_cited(text: str) -> set[int]:
    """Return the numbers that an answer names as citations, whether or not there is a passage for each."""
    return {int(number) for mark in _MARK.finditer(text) for number in mark[1].split(",")}


def describe_place(citation: CitationView) -> str:
    """Return the document and the pages of a passage, such as `handbook.pdf, p. 3 to 4`."""
    first, last = citation.page_start, citation.page_end
    if first is None:
        return citation.source
    return f"{citation.source}, p. {first}" + (f" to {last}" if last not in (None, first) else "")


def _with_chips(text: str, cited: Mapping[int, CitationView], address_of: AddressOfPassage) -> Markup:
    """Return a text, escaped, with a chip for each number that is cited."""
    parts: list[str | Markup] = []
    end = 0
    for mark in _MARK.finditer(text):
        numbers = [int(number) for number in mark[1].split(",")]
        if any(number in cited for number in numbers):
            parts.append(text[end : mark.start()])
            parts += [_chip(cited[number], address_of) if number in cited else f"[{number}]" for number in numbers]
            end = mark.end()
    parts.append(text[end:])
    return Markup("").join(escape(part) for part in parts)


def _chip(citation: CitationView, address_of: AddressOfPassage) -> Markup:
    return Markup('<a class="chip" href="{}" title="{}" data-passage>{}</a>').format(
        address_of(citation), describe_place(citation), citation.number
    )
