"""A text that is too long or too short is refused in characters, as its author counts."""

import importlib
import pkgutil
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

import kb_contracts
from kb_contracts.documents import EmbeddingText
from kb_contracts.knowledge.entry_fields import EntryContent, EntryTitle, InfoType
from kb_contracts.reasons.field_reasons import why_not


def models() -> list[type[BaseModel]]:
    """Return all models of the contracts."""
    for module in pkgutil.walk_packages(kb_contracts.__path__, "kb_contracts."):
        importlib.import_module(module.name)
    pending, found = [BaseModel], set[type[BaseModel]]()
    while pending:
        for model in pending.pop().__subclasses__():
            if model not in found:
                found.add(model)
                pending.append(model)
    return sorted((each for each in found if each.__module__.startswith("kb_contracts.")), key=str)


def counted_as_items(schema: Any, path: str) -> Iterator[str]:
    """Yield the places where pydantic counts the items of what another validator returns."""
    if isinstance(schema, dict):
        function = schema.get("function", {})
        if isinstance(function, dict) and isinstance(function.get("function"), partial):
            yield from (f"{path}: {name}" for name in function["function"].keywords if name.endswith("_length"))
        for key, each in schema.items():
            yield from counted_as_items(each, f"{path}.{key}")
    elif isinstance(schema, list | tuple):
        for each in schema:
            yield from counted_as_items(each, path)


def test_no_model_counts_the_characters_of_a_text_as_items() -> None:
    found = [
        place for model in models() for place in counted_as_items(model.__pydantic_core_schema__, model.__qualname__)
    ]
    assert found == [], "put AfterValidator behind the limits of length"


@pytest.mark.parametrize(
    ("annotation", "most"), [(EntryTitle, 300), (EntryContent, 200_000), (InfoType, 64), (EmbeddingText, 8_000)]
)
def test_a_text_that_is_too_long_or_empty_is_refused_in_characters(annotation: Any, most: int) -> None:
    texts = TypeAdapter(annotation)
    assert texts.validate_python("a" * most) == "a" * most
    for wrong, reason in (
        ("a" * (most + 1), f"must have at most {most:,} characters, not {most + 1:,}"),
        ("", "must not be empty"),
    ):
        assert [each.message for each in why_not(texts, wrong)] == [reason]
