"""The definitions of search indexes, of either type."""

from typing import Literal, cast, get_args

from kb_local.search_node.errors import definition_error
from kb_local.search_node.text_definitions import TextDefinition, parse_text_definition
from kb_local.search_node.vector_definitions import VectorDefinition, parse_vector_definition

IndexDefinition = VectorDefinition | TextDefinition
IndexType = Literal["search", "vectorSearch"]

INDEX_TYPES: tuple[str, ...] = get_args(IndexType)


def type_of(definition: IndexDefinition) -> IndexType:
    return "search" if isinstance(definition, TextDefinition) else "vectorSearch"


def parse_definition(source: object, *, of_type: IndexType, where: str) -> IndexDefinition:
    """Check a definition; `where` names it in error texts, such as `userCommand.definition`."""
    if of_type == "search":
        return parse_text_definition(source, where=where)
    return parse_vector_definition(source, where=where)


def index_type(value: object, *, where: str) -> IndexType:
    if value not in INDEX_TYPES:
        raise definition_error(f'"{where}" must be one of [{", ".join(INDEX_TYPES)}]')
    return cast("IndexType", value)
