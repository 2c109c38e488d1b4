"""Renders answers that are JSON, with violations of their schema at the values that violate it.

Names, values and messages are a model's, so markup is made only of escaped strings.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from markupsafe import Markup, escape

from kb_shared.text.whole_characters import whole_characters

PathStep: TypeAlias = str | int
RenderText: TypeAlias = Callable[[str], Markup]

_STEP: Final = re.compile(r"\.([a-zA-Z][a-zA-Z0-9_]*)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ROOT: Final = "$"
_BEFORE_MESSAGE: Final = ": "
_DEEPEST_INDENT: Final = 20
"""Levels that are indented: what is nested deeper would be mostly blanks."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A message about the value at a path."""

    path: tuple[PathStep, ...]
    message: str


@dataclass(slots=True)
class _Marks:
    """Messages about a value, and about what is in it."""

    messages: list[str] = field(default_factory=list)
    inner: dict[PathStep, "_Marks"] = field(default_factory=dict)


_UNMARKED: Final = _Marks()


def read_violation(text: str) -> Violation | None:
    """Return a violation that is written `$.path[0]: message`; None for one of the answer as a whole.

    The API cuts long ones. Without the end of the path, the message is about the part of it that is left.
    """
    if not text.startswith(_ROOT):
        return None
    path: list[PathStep] = []
    end = len(_ROOT)
    while (step := _STEP.match(text, end)) is not None:
        name, index, quoted = step.groups()
        path.append(int(index) if index is not None else (name or _ESCAPED.sub(r"\1", quoted or "")))
        end = step.end()
    is_whole = text.startswith(_BEFORE_MESSAGE, end)
    return Violation(tuple(path), text[end + len(_BEFORE_MESSAGE) :] if is_whole else text)


def parse_json_answer(text: str) -> Any:
    """Return the object or list that an answer with a schema is; None for other answers."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = _with_whole_characters(json.loads(text))
    except (ValueError, RecursionError):
        return None
    # A list of numbers alone is a citation.
    is_record = isinstance(value, dict) or any(isinstance(each, dict) for each in value)
    return value if is_record else None


def begins_as_json(text: str) -> bool:
    """Say whether an answer that is no JSON is the beginning of an object, which is still being written or was cut."""
    stripped = text.lstrip()
    return stripped.startswith("{") and stripped[1:].lstrip()[:1] in {"", '"'}


def render_json(value: Any, violations: Sequence[str], render_text: RenderText) -> Markup:
    """Return JSON as markup, indented.

    Args:
        value: what `parse_json_answer` returned.
        violations: messages as the API writes them. Those about the answer as a whole are left out.
        render_text: escapes a text.
    """
    marks = _place(value, [found for each in violations if (found := read_violation(each)) is not None])
    try:
        parts = list(_write(value, marks, render_text, depth=0))
    except RecursionError:
        parts = [render_text(json.dumps(value, ensure_ascii=False))]
    return Markup('<pre class="json">{}</pre>').format(Markup("").join(parts))


def _with_whole_characters(value: Any) -> Any:
    """Replace half surrogate pairs, which JSON allows and no page can contain."""
    match value:
        case str():
            return whole_characters(value)
        case list():
            return [_with_whole_characters(each) for each in value]
        case dict():
            return {whole_characters(name): _with_whole_characters(each) for name, each in value.items()}
    return value


def _place(value: Any, violations: Sequence[Violation]) -> _Marks:
    """Put each message at the deepest value of its path that the answer has."""
    marks = _Marks()
    for violation in violations:
        inside, marked = value, marks
        for step in violation.path:
            if not _has(inside, step):
                break
            inside = inside[step]
            marked = marked.inner.setdefault(step, _Marks())
        marked.messages.append(violation.message)
    return marks


def _has(value: Any, step: PathStep) -> bool:
    if isinstance(value, list):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, dict) and step in value


def _write(value: Any, marks: _Marks, render_text: RenderText, *, depth: int, after: str = "") -> Iterator[Markup]:
    """Yield the markup of a value, with `after` behind it."""
    members = list(_members(value, render_text))
    if not members:
        yield _marked(render_text(json.dumps(value, ensure_ascii=False)), marks) + after + _notes(marks)
        return
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    yield _marked(escape(opening), marks) + _notes(marks)
    for number, (step, name, each) in enumerate(members, 1):
        yield _line(depth + 1) + name
        comma = "," if number < len(members) else ""
        yield from _write(each, marks.inner.get(step, _UNMARKED), render_text, depth=depth + 1, after=comma)
    yield _line(depth) + closing + after


def _members(value: Any, render_text: RenderText) -> Iterator[tuple[PathStep, Markup, Any]]:
    """Yield the step to each member of a value, its name as it is written before it, and the member."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield name, _isolated(render_text(json.dumps(name, ensure_ascii=False))) + ": ", each
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield index, Markup(""), each


def _line(depth: int) -> Markup:
    return Markup("\n") + "  " * min(depth, _DEEPEST_INDENT)


def _isolated(written: Markup) -> Markup:
    """Keep marks for the direction of writing within a name or value."""
    return Markup("<bdi>{}</bdi>").format(written)


def _marked(written: Markup, marks: _Marks) -> Markup:
    isolated = _isolated(written)
    return Markup('<mark class="violation">{}</mark>').format(isolated) if marks.messages else isolated


def _notes(marks: _Marks) -> Markup:
    # The blank is in the note, so that what was written stays as it is.
    note = Markup('<span class="problem note"> ← {}</span>')
    return Markup("").join(note.format(_isolated(escape(message))) for message in marks.messages)
