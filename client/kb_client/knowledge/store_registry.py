"""Stores by name: those of this package, and those that other packages register as `kb.knowledge_stores`."""

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, Final

from kb_client.knowledge.stores import KnowledgeStores

ENTRY_POINT_GROUP: Final = "kb.knowledge_stores"


def open_stores(name: str, **options: Any) -> KnowledgeStores:
    """Open the three stores of a back end, such as `memory` or `http`.

    Args:
        name: name of the entry point.
        options: arguments of the back end, such as `client` of `http`.
    Raises:
        ValueError: no installed package has registered the name.
    """
    found = {each.name: each for each in entry_points(group=ENTRY_POINT_GROUP)}
    if name not in found:
        raise ValueError(f"no stores are registered as {name!r}; there are {', '.join(sorted(found))}")
    open_back_end: Callable[..., KnowledgeStores] = found[name].load()
    return KnowledgeStores(*open_back_end(**options))
