"""The definition of a search index of type `search`, checked by Atlas's rules."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kb_local.search_node.analyzers import ANALYZERS, DEFAULT_ANALYZER, UNSUPPORTED, Analyzer
from kb_local.search_node.arguments import Arguments
from kb_local.search_node.custom_analyzers import custom_analyzers
from kb_local.search_node.errors import definition_error, not_implemented

ValueKind = Literal["boolean", "date", "number", "objectId", "string", "uuid"]

DEFINITION_KEYS_IGNORED = ("numPartitions", "indexFeatureVersion")
FIELD_TYPES = (
    *("autocomplete", "boolean", "date", "document", "embeddedDocuments", "geo", "knnVector", "number", "objectId"),
    *("string", "token", "uuid", "vector"),
)
DEPRECATED_TYPES = ("dateFacet", "numberFacet", "stringFacet")
UNSUPPORTED_TYPES = ("autocomplete", "embeddedDocuments", "geo", "knnVector", "vector", *DEPRECATED_TYPES)
INDEX_OPTIONS = ("docs", "freqs", "positions", "offsets")


@dataclass(frozen=True, slots=True)
class StringField:
    """Analyzer names are None where the index's own applies."""

    analyzer: str | None = None
    search_analyzer: str | None = None
    norms: bool = True
    multi: Mapping[str, "StringField"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NumberField:
    integers: bool = True
    doubles: bool = True


@dataclass(frozen=True, slots=True)
class DocumentMapping:
    """Mapping of the fields of a document; if it is dynamic, other fields are indexed by their types."""

    dynamic: bool = False
    fields: Mapping[str, "FieldMapping"] = field(default_factory=dict)

    def find_mapping(self, name: str) -> "FieldMapping | None":
        found = self.fields.get(name)
        return DYNAMIC if found is None and self.dynamic else found


@dataclass(frozen=True, slots=True)
class FieldMapping:
    """Mapping of one field: each value is indexed by its type."""

    text: StringField | None = None
    token: bool = False
    lowercase_token: bool = False
    number: NumberField | None = None
    kinds: frozenset[ValueKind] = frozenset()
    document: DocumentMapping | None = None


DYNAMIC = FieldMapping(
    text=StringField(),
    number=NumberField(),
    kinds=frozenset({"boolean", "date", "objectId", "uuid"}),
    document=DocumentMapping(dynamic=True),
)


@dataclass(frozen=True, slots=True)
class TextDefinition:
    """Definition of an index. `source` is the definition as it was sent, which is what listing shows."""

    source: dict[str, Any]
    mapping: DocumentMapping = field(compare=False)
    analyzer: str | None = field(compare=False)
    search_analyzer: str | None = field(compare=False)
    custom: Mapping[str, Analyzer] = field(compare=False)
    """Custom analyzers of the definition."""

    @property
    def top_fields(self) -> list[str] | None:
        """Return the fields of a document that indexing needs; None for all."""
        return None if self.mapping.dynamic else list(self.mapping.fields)

    def index_analyzer(self, of: StringField) -> Analyzer:
        return self._named(of.analyzer or self.analyzer or DEFAULT_ANALYZER)

    def query_analyzer(self, of: StringField) -> Analyzer:
        name = of.search_analyzer or of.analyzer or self.search_analyzer or self.analyzer or DEFAULT_ANALYZER
        return self._named(name)

    def _named(self, name: str) -> Analyzer:
        return ANALYZERS[name] if name in ANALYZERS else self.custom[name]


def parse_text_definition(source: object, *, where: str) -> TextDefinition:
    """Check a definition; `where` names it in error texts, such as `userCommand.definition`."""
    definition = Arguments(source, where, refuse=definition_error)
    for key in DEFINITION_KEYS_IGNORED:
        definition.given(key)
    for key in ("synonyms", "typeSets", "sort", "storedSource"):
        if definition.given(key):
            raise not_implemented(f"{key} of a search index")
    custom = custom_analyzers(definition)
    analyzer = _analyzer(definition, "analyzer", custom=custom)
    search_analyzer = _analyzer(definition, "searchAnalyzer", custom=custom)
    definition.required("mappings")
    mapping = _mapping(definition.child("mappings"), custom)
    definition.close()
    return TextDefinition(dict(definition.source), mapping, analyzer, search_analyzer, custom)


def _analyzer(holder: Arguments, key: str, *, custom: Collection[str]) -> str | None:
    name = holder.text(key)
    if name in UNSUPPORTED:
        raise not_implemented(f"the analyzer {name}")
    if name is not None and name not in ANALYZERS and name not in custom:
        raise holder.refusal(f'refers to the analyzer "{name}", which is not defined', key)
    return name


def _mapping(source: Arguments, custom: Collection[str]) -> DocumentMapping:
    dynamic = source.given("dynamic")
    if isinstance(dynamic, dict):
        raise not_implemented("a typeSet of a search index")
    if not isinstance(dynamic, bool | None):
        raise source.refusal("must be a boolean or document", "dynamic")
    fields: dict[str, FieldMapping] = {}
    if source.given("fields") is not None:
        named = source.child("fields")
        fields = {name: _field(named, name, custom=custom) for name in named.source}
    source.close()
    return DocumentMapping(bool(dynamic), fields)


def _field(fields: Arguments, name: str, *, custom: Collection[str]) -> FieldMapping:
    if fields.given(name) is None:
        raise fields.refusal("cannot be null", name)
    types = [fields.element(where, one) for where, one in fields.one_or_many(name)]
    by_type: dict[str, Arguments] = {}
    for one in types:
        one.required("type")
        kind = one.choice("type", (*FIELD_TYPES, *DEPRECATED_TYPES), default="")
        if kind in UNSUPPORTED_TYPES:
            raise not_implemented(f"a search index field of type {kind}")
        if kind in by_type:
            raise fields.refusal(f'field contained multiple "[{kind}]" type definitions', name)
        by_type[kind] = one
    mapping = FieldMapping(
        text=_string_field(by_type["string"], custom) if "string" in by_type else None,
        token="token" in by_type,
        lowercase_token="token" in by_type and _lowercases(by_type["token"]),
        number=_number_field(by_type["number"]) if "number" in by_type else None,
        kinds=frozenset(kind for kind in ("boolean", "date", "objectId", "uuid") if kind in by_type),
        document=_mapping(by_type["document"], custom) if "document" in by_type else None,
    )
    for one in types:
        one.close()
    return mapping


def _string_field(source: Arguments, custom: Collection[str], *, within_multi: bool = False) -> StringField:
    if source.choice("indexOptions", INDEX_OPTIONS, default="offsets") in ("docs", "freqs"):
        raise not_implemented("a string field without positions")
    source.boolean("store", default=True)
    if source.given("similarity") not in (None, {"type": "bm25"}):
        raise not_implemented("a similarity other than bm25")
    multi: dict[str, StringField] = {}
    if source.given("multi"):
        if within_multi:
            raise source.refusal("multi definition cannot contain nested multi definition")
        named = source.child("multi")
        multi = {name: _multi_field(named, name, custom=custom) for name in named.source}
    # Checked, and then without effect, as on Atlas.
    source.integer("ignoreAbove", default=0, bounds=(1, None))
    return StringField(
        analyzer=_analyzer(source, "analyzer", custom=custom),
        search_analyzer=_analyzer(source, "searchAnalyzer", custom=custom),
        norms=source.choice("norms", ("include", "omit"), default="include") == "include",
        multi=multi,
    )


def _multi_field(named: Arguments, name: str, *, custom: Collection[str]) -> StringField:
    if "." in name:
        raise named.refusal('multi path cannot contain "."', name)
    source = named.child(name)
    if source.required("type") != "string":
        raise source.refusal("multi definition must be string field")
    parsed = _string_field(source, custom, within_multi=True)
    source.close()
    return parsed


def _number_field(source: Arguments) -> NumberField:
    source.choice("representation", ("int64", "double"), default="double")
    integers, doubles = source.boolean("indexIntegers", default=True), source.boolean("indexDoubles", default=True)
    if not integers and not doubles:
        raise source.refusal("indexDoubles and indexIntegers may not both be false")
    return NumberField(integers, doubles)


def _lowercases(source: Arguments) -> bool:
    return source.choice("normalizer", ("lowercase", "none"), default="none") == "lowercase"
