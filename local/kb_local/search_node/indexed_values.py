"""Extracts the values that a search index stores of a document, by its mapping."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kb_local.search_node.analyzers import Terms
from kb_local.search_node.clauses import Bound
from kb_local.search_node.errors import search_error
from kb_local.search_node.text_definitions import (
    DYNAMIC,
    DocumentMapping,
    FieldMapping,
    NumberField,
    StringField,
    TextDefinition,
)
from kb_local.search_node.values import FilterKey, stored_key

# A longer array of numbers without a mapping is treated as an embedding, whose numbers are not searched for.
LONGEST_NUMBERS = 100


class TextKey(NamedTuple):
    """Names an analyzed field: the string at a path, or the same string analyzed in another way."""

    path: str
    multi: str | None = None


@dataclass(slots=True)
class DocumentValues:
    """Values of one document: terms of analyzed fields, values of others, and all indexed paths it has."""

    terms: dict[TextKey, Terms] = field(default_factory=dict)
    keys: dict[str, list[FilterKey]] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)


class IndexedValues:
    """`settings` are those of the analyzed fields seen so far: a dynamic mapping finds more of them."""

    def __init__(self, definition: TextDefinition) -> None:
        self._definition = definition
        self.settings: dict[TextKey, StringField] = {}

    def find_values(self, document: Mapping[str, Any]) -> DocumentValues:
        found = DocumentValues()
        self._walk(document, self._definition.mapping, prefix="", found=found)
        return found

    def as_stored(self, path: str, keys: Iterable[FilterKey]) -> list[FilterKey]:
        """Return keys of a query as the values of the path were stored."""
        mapping = self._mapping_at(path)
        return [_token(mapping, key) if mapping is not None else key for key in keys]

    def bound_as_stored(self, path: str, bound: Bound | None) -> Bound | None:
        if bound is None:
            return None
        (key,) = self.as_stored(path, [bound.key])
        return Bound(key, bound.inclusive)

    def check_comparable(self, path: str, keys: Iterable[FilterKey]) -> None:
        """Refuse to compare strings at a path that is analyzed, or not indexed."""
        mapping = self._mapping_at(path)
        if any(kind == "string" for kind, _ in keys) and (mapping is None or not mapping.token):
            raise search_error(f"Path '{path}' needs to be indexed as token")

    def check_sortable(self, path: str) -> None:
        if self._mapping_at(path) is None:
            raise search_error(f"{path} is not indexed as sortable")

    def _mapping_at(self, path: str) -> FieldMapping | None:
        document: DocumentMapping | None = self._definition.mapping
        found: FieldMapping | None = None
        for name in path.split("."):
            found = document.find_mapping(name) if document is not None else None
            document = found.document if found is not None else None
        return found

    def _walk(
        self, document: Mapping[str, Any], mapping: DocumentMapping, *, prefix: str, found: DocumentValues
    ) -> None:
        for name, value in document.items():
            of_field = mapping.find_mapping(name)
            if of_field is not None:
                self._index_value(value, of_field, path=prefix + name, found=found)

    def _index_value(self, value: Any, mapping: FieldMapping, *, path: str, found: DocumentValues) -> None:
        if isinstance(value, list):
            if mapping is DYNAMIC and _is_embedding(value):
                found.paths.add(path)
                return
            for element in value:
                self._index_value(element, mapping, path=path, found=found)
            return
        found.paths.add(path)
        if isinstance(value, dict):
            if mapping.document is not None:
                self._walk(value, mapping.document, prefix=f"{path}.", found=found)
            return
        if isinstance(value, str) and mapping.text is not None:
            self._analyze(value, mapping.text, path=path, found=found)
        key = stored_key(value)
        if key is not None and _is_indexed(key, mapping):
            found.keys.setdefault(path, []).append(_token(mapping, key))

    def _analyze(self, text: str, settings: StringField, *, path: str, found: DocumentValues) -> None:
        for name, of_field in ((None, settings), *settings.multi.items()):
            key = TextKey(path, name)
            self.settings[key] = of_field
            terms = self._definition.index_analyzer(of_field).terms(text)
            # The elements of an array follow each other as if they were one text.
            found.terms[key] = found.terms[key] + terms if key in found.terms else terms


def _is_embedding(values: list[Any]) -> bool:
    return len(values) > LONGEST_NUMBERS and all(isinstance(value, int | float) for value in values)


def _is_indexed(key: FilterKey, mapping: FieldMapping) -> bool:
    kind, value = key
    if kind == "null":
        return True
    if kind == "string":
        return mapping.token
    if kind == "number":
        return mapping.number is not None and _number_is_indexed(value, mapping.number)
    return kind in mapping.kinds


def _number_is_indexed(value: float, settings: NumberField) -> bool:
    return settings.integers if isinstance(value, int) else settings.doubles


def _token(mapping: FieldMapping, key: FilterKey) -> FilterKey:
    kind, value = key
    return (kind, value.lower()) if kind == "string" and mapping.lowercase_token else key
