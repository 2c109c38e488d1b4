"""Drops indexes that others have replaced."""

from typing import Final

import structlog
from pymongo.errors import OperationFailure

from kb_shared.mongo.database import Collection

_UNAUTHORIZED: Final = 13
_NAMESPACE_NOT_FOUND: Final = 26
_INDEX_NOT_FOUND: Final = 27

log = structlog.get_logger()


async def drop_replaced(collection: Collection, index: str) -> None:
    """Drop an index if it is there. One that the user may not drop is kept, with a warning in the log."""
    try:
        await collection.drop_index(index)
    except OperationFailure as error:
        if error.code == _UNAUTHORIZED:
            # It only takes room. Roles of earlier versions have no right to drop an index.
            log.warning("migration.index_kept", collection=collection.name, index=index)
        elif error.code not in (_INDEX_NOT_FOUND, _NAMESPACE_NOT_FOUND):
            raise
