"""Creates the indexes of collections. Each service lists those that it uses in its `indexes.py`."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from pymongo import IndexModel

from kb_shared.mongo.database import Database, long_commands

CollectionIndexes: TypeAlias = tuple[str, Sequence[IndexModel]]
"""Name of a collection and its indexes."""


async def create_indexes(database: Database, collections: Iterable[CollectionIndexes]) -> None:
    """Create missing indexes; existing ones are not changed."""
    with long_commands():
        for name, indexes in collections:
            await database[name].create_indexes(indexes)
