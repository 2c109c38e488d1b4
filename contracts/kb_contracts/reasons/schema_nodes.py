"""Reads the schema of a model: what stands at a place, and what may stand there."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, TypeAlias

from pydantic import TypeAdapter

from kb_contracts.reasons.patterns import form_of

SchemaOfNode: TypeAlias = Mapping[str, Any]

DATE_TIME_EXAMPLE: Final = "2026-01-31T12:00:00Z"
MOST_NAMES_OF_KIND: Final = 3
_ANY: Final[SchemaOfNode] = {"type": "any"}
_INNER: Final = ("schema", "lax_schema", "python_schema")
"""Names under which a node that only wraps another one keeps it."""
_FIELDS: Final = frozenset({"model-fields", "typed-dict", "dataclass-args"})
_LISTS: Final = frozenset({"list", "set", "frozenset", "generator"})
_LEAVES: Final = frozenset({"union", "tagged-union", "dict", "tuple", *_FIELDS, *_LISTS})
"""Nodes that have other nodes within, and are not merely a wrapping."""
_TEXTS: Final = frozenset({"str", "url", "multi-host-url"})
_KINDS: Final[Mapping[str, str]] = {
    "str": "a text",
    "int": "an integer",
    "float": "a number",
    "decimal": "a number",
    "bool": "true or false",
    "none": "null",
    "datetime": f"a date-time such as {DATE_TIME_EXAMPLE}",
    "date": "a date such as 2026-01-31",
    "dict": "an object",
    "tuple": "a list",
    "url": "a URL",
}


@dataclass(frozen=True, slots=True)
class Node:
    """Part of a schema: all that it says of one place."""

    schema: SchemaOfNode
    definitions: Mapping[str, SchemaOfNode]
    is_private: bool = False
    """True if nothing that stands here or below may be repeated, whatever its form."""

    @property
    def type(self) -> str:
        return str(self.schema["type"])

    @property
    def is_union(self) -> bool:
        return self.type in {"union", "tagged-union"}

    def choices(self) -> list["Node"]:
        """Return the alternatives of a union, in their order."""
        if self.type == "tagged-union":
            return [self._at(each) for each in self.schema["choices"].values()]
        return [self._at(each[0] if isinstance(each, tuple) else each) for each in self.schema.get("choices", ())]

    def choice_of_tag(self, tag: object) -> "Node":
        return self._at(self.schema["choices"].get(tag, _ANY))

    def field_names(self) -> list[str]:
        """Return the names that senders use for the fields of an object."""
        if self.type not in _FIELDS:
            return []
        fields = self.schema["fields"]
        if isinstance(fields, list):
            return [str(each["name"]) for each in fields]
        return [_public_name(name, field) for name, field in fields.items()]

    def required_names(self) -> list[str]:
        if self.type not in {"model-fields", "typed-dict"}:
            return []
        fields = self.schema["fields"].items()
        return [_public_name(name, field) for name, field in fields if field["schema"]["type"] != "default"]

    def child(self, part: int | str) -> "Node":
        """Return what the schema says of a field, an item or a value; anything goes for what it does not know."""
        if self.type in _FIELDS and not isinstance(self.schema["fields"], list):
            for name, field in self.schema["fields"].items():
                if part in (name, _public_name(name, field)):
                    return self._at(field["schema"])
        if self.type == "dict":
            return self._at(self.schema.get("values_schema", _ANY))
        if self.type in _LISTS:
            return self._at(self.schema.get("items_schema", _ANY))
        if self.type == "tuple" and isinstance(part, int):
            items = self.schema.get("items_schema", ())
            return self._at(items[part] if part < len(items) else _ANY)
        return self._at(_ANY)

    def key(self) -> "Node":
        """Return what the schema says of the names, which senders make up: they may be any text."""
        return replace(self._at(self.schema.get("keys_schema", _ANY)), is_private=True)

    def kinds(self) -> list[str]:
        """Say in the words of JSON what may stand here."""
        return list(dict.fromkeys(self._kinds()))

    def may_be_shown(self) -> bool:
        """Return whether texts that are wrong here may be repeated: only where no free text is allowed."""
        if self.is_private:
            return False
        if self.is_union:
            return all(each.may_be_shown() for each in self.choices())
        if self.type in _TEXTS:
            pattern = self.schema.get("pattern")
            return isinstance(pattern, str) and form_of(pattern).is_code
        return self.type in {"int", "float", "bool", "literal", "enum", "datetime", "date", "none"}

    def _kinds(self) -> Iterator[str]:
        if self.is_union:
            kinds = [kind for each in self.choices() for kind in each.kinds()]
            yield from (kind for kind in kinds if kind != "an integer" or "a number" not in kinds)
        elif self.type in {"literal", "enum"}:
            yield from _choices_in_words(self.schema)
        elif self.type in _FIELDS:
            yield self._kind_of_object()
        else:
            yield "a list" if self.type in _LISTS else _KINDS.get(self.type, "any value")

    def _kind_of_object(self) -> str:
        required = self.required_names()
        if len(required) == 1 and self.child(required[0]).type == "datetime":
            return f'a date {{"{required[0]}": "{DATE_TIME_EXAMPLE}"}}'
        return f"an object with {' and '.join(required)}" if 0 < len(required) <= MOST_NAMES_OF_KIND else "an object"

    def _at(self, schema: SchemaOfNode) -> "Node":
        return _resolve(schema, self.definitions, is_private=self.is_private)


def node_of(model: Any, *, is_private: bool = False) -> Node:
    """Return the outermost node of a model, another annotation, or a TypeAdapter."""
    adapter = model if isinstance(model, TypeAdapter) else TypeAdapter(model)
    return _resolve(adapter.core_schema, {}, is_private=is_private)


def _resolve(schema: Any, definitions: Mapping[str, SchemaOfNode], *, is_private: bool) -> Node:
    """Follow references and wrappings to the node that says what is allowed."""
    while True:
        kind = schema["type"]
        if kind == "definitions":
            definitions = {**definitions, **{each["ref"]: each for each in schema["definitions"]}}
            schema = schema["schema"]
        elif kind == "definition-ref":
            schema = definitions.get(schema["schema_ref"], _ANY)
        elif kind == "chain":
            schema = schema["steps"][0]
        elif kind not in _LEAVES and (inner := next((schema[name] for name in _INNER if name in schema), None)):
            # That null is allowed, too, is left out: who sends something else does not mean null.
            schema = inner
        else:
            return Node(schema, definitions, is_private)


def _public_name(name: str, field: Mapping[str, Any]) -> str:
    alias = field.get("validation_alias")
    return alias if isinstance(alias, str) else name


def _choices_in_words(schema: SchemaOfNode) -> Iterator[str]:
    expected = schema["expected"] if schema["type"] == "literal" else schema["members"]
    for each in expected:
        value = each.value if isinstance(each, Enum) else each
        yield f'"{value}"' if isinstance(value, str) else str(value).lower()
