"""A service creates the indexes of the collections that its code can reach by import, and of no others.

What it can reach it may read or write. It must not rely on another service that has started before: without an index
its queries read whole collections, and rows that should expire stay.
"""

import importlib
from collections.abc import Iterable, Sequence

import grimp
import pytest
from pymongo import IndexModel

SERVICES = ("kb_api", "kb_indexer", "kb_knowledge", "kb_reconciler", "kb_search")
NOT_OF_ONE_COLLECTION = {"kb_shared.mongo.vectors"}
"""Modules whose indexes each KB gets for its own collection, from kb-api."""


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    graph = grimp.build_graph(*SERVICES, "kb_shared", cache_dir=None)
    for service in SERVICES:
        # The lists themselves are no use of a collection.
        graph.remove_module(f"{service}.indexes")
    return graph


def registered_by(service: str) -> Sequence[tuple[str, Sequence[IndexModel]]]:
    collections: Sequence[tuple[str, Sequence[IndexModel]]] = importlib.import_module(f"{service}.indexes").COLLECTIONS
    return collections


def lists_of_indexes(modules: Iterable[str]) -> dict[int, str]:
    """Return the names of the lists of indexes in `modules`, by the identity of the list."""
    found: dict[int, str] = {}
    for module in sorted(modules):
        for name, value in vars(importlib.import_module(module)).items():
            if isinstance(value, list) and value and all(isinstance(each, IndexModel) for each in value):
                found.setdefault(id(value), f"{module}.{name}")
    return found


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_creates_the_indexes_of_the_collections_that_it_can_reach(
    service: str, imports: grimp.ImportGraph
) -> None:
    names = lists_of_indexes(
        each
        for each in imports.modules - NOT_OF_ONE_COLLECTION
        if each.startswith(("kb_shared.mongo.", "kb_api.", "kb_search.store.", "kb_knowledge.store."))
        and not each.endswith(".__main__")
    )
    reachable = imports.find_upstream_modules(service, as_package=True) | imports.find_descendants(service)
    expected = {name for name in names.values() if name.rpartition(".")[0] in reachable}
    assert {names[id(indexes)] for _, indexes in registered_by(service)} == expected


def test_a_collection_has_one_list_of_indexes() -> None:
    lists = [each for service in SERVICES for each in registered_by(service)]
    assert len({name for name, _ in lists}) == len({id(indexes) for _, indexes in lists})
