"""Finds the search indexes of a node by their name, their id and their collection."""

from bson import ObjectId

from kb_local.search_node.change_feed import Namespace
from kb_local.search_node.search_index import SearchIndex


class IndexTable:
    """Holds at most one index of a name for each namespace."""

    def __init__(self) -> None:
        self._by_name: dict[tuple[Namespace, str], SearchIndex] = {}
        self._by_id: dict[ObjectId, SearchIndex] = {}
        self._by_collection: dict[bytes, list[SearchIndex]] = {}

    @property
    def all(self) -> list[SearchIndex]:
        return list(self._by_id.values())

    def named(self, namespace: Namespace, name: str) -> SearchIndex | None:
        return self._by_name.get((namespace, name))

    def with_id(self, index_id: ObjectId) -> SearchIndex | None:
        return self._by_id.get(index_id)

    def list_indexes(self, namespace: Namespace) -> list[SearchIndex]:
        return [index for (owner, _), index in self._by_name.items() if owner == namespace]

    def of_collection(self, collection_id: bytes) -> list[SearchIndex]:
        return list(self._by_collection.get(collection_id, ()))

    def add(self, index: SearchIndex) -> None:
        self._by_name[index.namespace, index.name] = index
        self._by_id[index.id] = index
        self._by_collection.setdefault(index.collection_id, []).append(index)

    def remove(self, index: SearchIndex) -> None:
        del self._by_name[index.namespace, index.name]
        del self._by_id[index.id]
        siblings = self._by_collection[index.collection_id]
        siblings.remove(index)
        if not siblings:
            del self._by_collection[index.collection_id]
