"""`source_files`: uploaded files of sources, in GridFS. A file that no source names is deleted after a day.

The id of a file in GridFS begins with its organization, so that its chunks do, too: `{organization_id}/{file_id}`.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from bson import ObjectId
from gridfs.asynchronous import AsyncGridFSBucket
from gridfs.errors import NoFile
from pymongo import ASCENDING, IndexModel

from kb_knowledge.store import knowledge_sources
from kb_shared.mongo.database import Database

NAME = "source_files"
FILES: Final = f"{NAME}.files"
MAX_FILE_BYTES: Final = 50 * 2**20
UNUSED_KEPT: Final = timedelta(days=1)
FILE_INDEXES = [IndexModel([("uploadDate", ASCENDING)])]


class FileTooLarge(Exception):
    """A file of more than 50 MB."""


@dataclass(frozen=True, slots=True)
class SourceFileKey:
    organization_id: str
    file_id: str

    @property
    def stored_id(self) -> str:
        return f"{self.organization_id}/{self.file_id}"


async def put(
    database: Database, organization_id: str, pieces: AsyncIterator[bytes], *, filename: str
) -> tuple[str, int]:
    """Store a file and return its id and size. If it is too large or `pieces` raises, nothing is stored.

    Raises:
        FileTooLarge: it has more than 50 MB.
    """
    key, size = SourceFileKey(organization_id, str(ObjectId())), 0
    file = _bucket(database).open_upload_stream_with_id(key.stored_id, filename)
    try:
        async for piece in pieces:
            size += len(piece)
            _check_size(size)
            await file.write(piece)
    except BaseException:
        await file.abort()
        raise
    await file.close()
    return key.file_id, size


async def exists(database: Database, key: SourceFileKey) -> bool:
    return await database[FILES].find_one({"_id": key.stored_id}, {"_id": 1}) is not None


async def save(database: Database, key: SourceFileKey, path: Path) -> int | None:
    """Write the contents of a file to `path`, piece by piece.

    Returns:
        The size in bytes; None if the file does not exist or is another organization's.
    """
    try:
        stream = await _bucket(database).open_download_stream(key.stored_id)
    except NoFile:
        return None
    with await asyncio.to_thread(path.open, "wb") as file:
        while piece := await stream.readchunk():
            await asyncio.to_thread(file.write, piece)
    return int(stream.length)


async def delete_unused(database: Database) -> int:
    """Delete files of all organizations that no source has named for a day; return their number."""
    old = {"uploadDate": {"$lt": datetime.now(UTC) - UNUSED_KEPT}}
    deleted = 0
    async for row in database[FILES].find(old, {"_id": 1}):
        organization_id, _, file_id = row["_id"].partition("/")
        named = {"organization_id": organization_id, "config.file_id": file_id}
        if await database[knowledge_sources.NAME].find_one(named, {"_id": 1}) is None:
            await _bucket(database).delete(row["_id"])
            deleted += 1
    return deleted


def _check_size(size: int) -> None:
    if size > MAX_FILE_BYTES:
        raise FileTooLarge


def _bucket(database: Database) -> AsyncGridFSBucket:
    return AsyncGridFSBucket(database, bucket_name=NAME)
