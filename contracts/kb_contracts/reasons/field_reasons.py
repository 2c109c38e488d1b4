"""Turns the errors of pydantic into reasons: one for each wrong field, in the words of JSON and of our own models.

A reason names the field as its sender wrote it, says what is wrong and what is allowed, and shows the beginning of the
value where the schema allows no free text. Of texts, names and secrets it tells the size only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from kb_contracts.reasons.schema_nodes import Node, node_of
from kb_contracts.reasons.sentences import UNKNOWN_FIELDS, any_of, is_missing, sentence, wrong_kind
from kb_contracts.reasons.shown_values import plain

MAX_ERRORS: Final = 1_000
"""Limit of errors that are looked at: a list of all would take long."""
MAX_REASONS: Final = 10
_CONSEQUENCE: Final = "default_factory_not_called"
_OWN: Final = "own_reason"
_NO_SCHEMA: Final = Node({"type": "any"}, {})
_NO_NAMES: Final[Mapping[str, str]] = {}

_PublicPath: TypeAlias = tuple[str, ...]
_Located: TypeAlias = tuple[tuple[int | str, ...], ErrorDetails]
"""The rest of the way to the place of an error, and the error."""


@dataclass(frozen=True, slots=True)
class FieldReason:
    """Why one field was refused."""

    field: str
    """_PublicPath such as `metadata.authors` or `pages.3.end`; empty for the whole value."""
    message: str
    """Sentence about what is wrong and what is allowed; completes the name of the field."""


def reasons(error: ValidationError, model: Any, *, quotes: bool = True) -> list[FieldReason]:
    """Return why a value is no `model`.

    Args:
        error: what `model` raised.
        model: a model, another annotation, or a TypeAdapter.
        quotes: whether values may be shown, and names that the sender made up.
    """
    if error.error_count() > MAX_ERRORS:
        return [FieldReason("", f"has {error.error_count():,} errors, too many to list")]
    return reasons_of(error.errors(include_url=False), node_of(model, is_private=not quotes))


def reasons_of(errors: Sequence[ErrorDetails], node: Node = _NO_SCHEMA) -> list[FieldReason]:
    """Return the reasons of errors whose places begin at `node`, in the order of the errors."""
    located = [(each["loc"], each) for each in errors if each["type"] != _CONSEQUENCE]
    return list(dict.fromkeys(_of_node(located, node, (), parent=_NO_SCHEMA)))


def why_not(adapter: TypeAdapter[Any], value: object, *, quotes: bool = True) -> list[FieldReason]:
    """Return why `value` is refused; nothing if it is not."""
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        return reasons(error, adapter, quotes=quotes)
    return []


def describe(
    error: ValidationError,
    model: Any,
    *,
    whole: str = "value",
    names: Mapping[str, str] = _NO_NAMES,
    most: int = MAX_REASONS,
    quotes: bool = True,
) -> str:
    """Return why a value is no `model` as one text.

    Args:
        whole: name of the value itself; empty: it needs none.
        names: of fields that were sent under another name than that of the model.
        most: number of reasons to give.
        quotes: whether values may be shown, and names that the sender made up.
    """
    found = reasons(error, model, quotes=quotes)
    rest = len(found) - most
    named = [(names.get(each.field, each.field) or whole, each.message) for each in found[:most]]
    listed = "; ".join(f"{name}: {message}" if name else message for name, message in named)
    return listed + (f"; and {rest:,} more" if rest > 0 else "")


def wrong_field(*path: str | int, message: str) -> ValidationError:
    """Create the error of a validator of a whole model about one of its fields.

    Args:
        path: place of the field in the model.
        message: a fixed sentence, which completes the name of the field.
    """
    problem = PydanticCustomError(_OWN, "{reason}", {"reason": message})
    return ValidationError.from_exception_data("reason", [InitErrorDetails(type=problem, loc=path, input=None)])


def _of_node(errors: list[_Located], node: Node, path: _PublicPath, *, parent: Node) -> Iterator[FieldReason]:
    here = [error for way, error in errors if not way]
    if here:
        # What else is wrong with it follows from the first mistake.
        yield FieldReason(".".join(path), _sentence(here[0], node, parent))
        return
    if node.is_union:
        yield from _of_union(errors, node, path, parent=parent)
        return
    for part in dict.fromkeys(way[0] for way, _ in errors):
        inner = [(way[1:], error) for way, error in errors if way[0] == part]
        yield from _of_part(part, inner, node=node, path=path)


def _of_part(part: int | str, errors: list[_Located], *, node: Node, path: _PublicPath) -> Iterator[FieldReason]:
    is_shown = isinstance(part, int) or not node.is_private or part in node.field_names()
    inner_path = (*path, plain(str(part)) if is_shown else "?")
    of_name = [(way[1:], error) for way, error in errors if node.type == "dict" and way[:1] == ("[key]",)]
    if not of_name:
        yield from _of_node(errors, node.child(part), inner_path, parent=node)
        return
    for each in _of_node(of_name, node.key(), inner_path, parent=node):
        yield FieldReason(each.field, f"the name {each.message}")


def _of_union(errors: list[_Located], node: Node, path: _PublicPath, *, parent: Node) -> Iterator[FieldReason]:
    """Fold the errors of all alternatives into those of the one that is meant, or into one that names them all."""
    if node.type == "tagged-union":
        tag = errors[0][0][0]
        yield from _of_node([(way[1:], error) for way, error in errors], node.choice_of_tag(tag), path, parent=parent)
        return
    branches = _branches(errors, node)
    meant = [(inner, choice) for inner, choice in branches if _is_meant(inner, choice)]
    fewest = min((len(inner) for inner, _ in meant), default=0)
    best = [(inner, choice) for inner, choice in meant if len(inner) == fewest]
    if len(best) == 1:
        yield from _of_node(*best[0], path, parent=parent)
        return
    yield FieldReason(".".join(path), _of_no_kind(errors, node))


def _branches(errors: list[_Located], node: Node) -> list[tuple[list[_Located], Node]]:
    """Return the errors of each alternative, whose name is the first part of their ways, with its schema."""
    names = list(dict.fromkeys(way[0] for way, _ in errors))
    choices = node.choices()
    # Each alternative has failed, and their errors stand in their order.
    known = choices if len(choices) == len(names) else [_NO_SCHEMA] * len(names)
    return [
        ([(way[1:], error) for way, error in errors if way[0] == name], choice)
        for name, choice in zip(names, known, strict=True)
    ]


def _is_meant(errors: list[_Located], choice: Node) -> bool:
    """Return whether a sender can have meant an alternative: its kind is right, and some of its fields are there."""
    if any(not way and _is_of_another_kind(error) for way, error in errors):
        return False
    if choice.is_union and all(way for way, _ in errors):
        return any(_is_meant(inner, each) for inner, each in _branches(errors, choice))
    missing = [error["input"] for way, error in errors if len(way) == 1 and is_missing(error)]
    if not missing or not isinstance(missing[0], dict):
        return not all(error["type"] in UNKNOWN_FIELDS for _, error in errors)
    return not missing[0].keys().isdisjoint(choice.field_names())


def _is_of_another_kind(error: ErrorDetails) -> bool:
    kind = error["type"]
    return kind.endswith(("_type", "_parsing")) or kind in {
        "none_required", "literal_error", "enum", "int_from_float", "is_instance_of"
    }  # fmt: skip


def _of_no_kind(errors: list[_Located], node: Node) -> str:
    whole = [error["input"] for way, error in errors if len(way) == 1 or (len(way) == 2 and is_missing(error))]
    return wrong_kind(node.kinds(), whole[0], node) if whole else f"must be {any_of(node.kinds())}"


def _sentence(error: ErrorDetails, node: Node, parent: Node) -> str:
    if error["type"] == _OWN:
        return str(error.get("ctx", {}).get("reason", ""))
    return sentence(error, node, parent)
