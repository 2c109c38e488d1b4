"""`document_texts`: the text of one revision, immutable, written before anything refers to it.

Texts of more than 1 MB go to GridFS, in a file named by the row, whose insertion makes the text exist. The id holds
organization and document, so that a `text_ref` of another organization can be told from its form.
"""

import hashlib
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from bson import ObjectId
from gridfs.asynchronous import AsyncGridFSBucket, grid_file
from gridfs.errors import CorruptGridFile, NoFile
from pymongo import ASCENDING, IndexModel, UpdateOne
from pymongo.errors import DuplicateKeyError

from kb_shared.errors import TransientError
from kb_shared.mongo.database import Database, Row, upsert_all
from kb_shared.mongo.keys import DocumentKey
from kb_shared.mongo.majority import seen_by_later_reads

NAME = "document_texts"
_BY_BYTES: Final = {"organization_id": ASCENDING, "bytes": ASCENDING}
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("document_id", ASCENDING)]),
    IndexModel([("file_id", ASCENDING)], sparse=True),
    IndexModel(list(_BY_BYTES.items())),
    # For the sweep of old texts, which reads no text this way.
    IndexModel([("_id", ASCENDING), ("created_at", ASCENDING)]),
]

_INLINE_BYTES = 1_000_000
_MOST_BYTES_OF_A_CHARACTER = 4
_BYTES_PER_INSERT: Final = 1_000_000
# PyMongo has no parameter for it. It keeps up to 32 MB of each upload in memory and then encodes them at once, which
# takes 100 ms of the event loop.
grid_file._UPLOAD_BUFFER_SIZE = _BYTES_PER_INSERT  # type: ignore[attr-defined]  # noqa: SLF001  # see above

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class StoredText:
    text: str
    pages: tuple[tuple[int, int, int], ...]
    """(page, start, end) in characters, in the order of the text."""


class NewText:
    """A text to be stored; `identity` is what it is referred to by."""

    def __init__(self, document: DocumentKey, text: str, pages: Sequence[tuple[int, int, int]] = ()) -> None:
        self.text = text
        self.encoded = text.encode()
        self.identity = text_id(document, text, pages)
        self.key = {"_id": self.identity, "organization_id": document.organization_id}
        self.fields = {
            "document_id": document.document_id,
            "pages": [list(page) for page in pages],
            "bytes": len(self.encoded),
        }


def text_id(document: DocumentKey, text: str, pages: Sequence[tuple[int, int, int]]) -> str:
    """Compute the id of a text. The same content always has the same id, so that storing it twice stores it once."""
    return _identity(document, hashlib.sha256(text.encode()), pages)


def _identity(document: DocumentKey, of_text: "hashlib._Hash", pages: Sequence[tuple[int, int, int]]) -> str:
    of_text.update(repr(tuple(pages)).encode())
    return f"{_prefix(document)}{of_text.hexdigest()}"


def _prefix(document: DocumentKey) -> str:
    return f"{document.organization_id}/{document.document_id}/"


def belongs_to(reference: str, document: DocumentKey) -> bool:
    return reference.startswith(_prefix(document)) and reference.count("/") == 2


async def put(
    database: Database, document: DocumentKey, text: str, *, pages: Sequence[tuple[int, int, int]] = ()
) -> str:
    """Store a text durably and return its id. Storing it again changes nothing."""
    new = NewText(document, text, tuple(pages))
    await put_all(database, [new])
    return new.identity


async def put_all(database: Database, texts: Sequence[NewText]) -> None:
    """Store texts as `put` does."""
    small = [text for text in texts if len(text.encoded) <= _INLINE_BYTES]
    if small:
        await upsert_all(database[NAME], [_upsert(text) for text in small])
    for text in texts:
        if len(text.encoded) > _INLINE_BYTES:
            await _put_large(database, text)


def _upsert(text: NewText) -> UpdateOne:
    return UpdateOne(
        text.key,
        # Young again: whoever puts a text is about to refer to it, and the sweep must not be faster.
        {"$set": {"created_at": datetime.now(UTC)}, "$setOnInsert": {**text.fields, "text": text.text}},
        upsert=True,
    )


async def _put_large(database: Database, text: NewText) -> None:
    if await touch(database, text.key["organization_id"], text.identity):
        return
    file_id = await _files(database).upload_from_stream(text.identity, text.encoded)
    await _insert_large(database, {**text.key, **text.fields, "file_id": file_id})


async def put_stream(database: Database, document: DocumentKey, pieces: AsyncIterator[bytes]) -> str:
    """Store a text without pages as it comes, in UTF-8; returns its id. If `pieces` raises, nothing is stored."""
    digest = hashlib.sha256()
    beginning = bytearray()
    received_bytes = 0
    file_id, file = ObjectId(), None
    try:
        async for piece in pieces:
            digest.update(piece)
            received_bytes += len(piece)
            if file is not None:
                await file.write(piece)
                continue
            beginning += piece
            if len(beginning) > _INLINE_BYTES:
                file = _files(database).open_upload_stream_with_id(file_id, _prefix(document).removesuffix("/"))
                await file.write(bytes(beginning))
    except BaseException:
        if file is not None:
            await file.abort()
        raise
    if file is None:
        return await put(database, document, beginning.decode())
    await file.close()
    identity = _identity(document, digest, ())
    row = {
        "_id": identity,
        "organization_id": document.organization_id,
        "document_id": document.document_id,
        "pages": [],
    }
    await _insert_large(database, {**row, "bytes": received_bytes, "file_id": file_id})
    return identity


async def stored_bytes(database: Database, organization_id: str) -> int:
    """Return how many bytes of UTF-8 the texts of an organization have; those of older versions count as none."""
    stages: list[Row] = [
        {"$match": {"organization_id": organization_id}},
        # Of the index alone: no text is read.
        {"$group": {"_id": None, "bytes": {"$sum": "$bytes"}}},
    ]
    rows = await database[NAME].aggregate(stages, hint=_BY_BYTES)
    return sum([row["bytes"] async for row in rows])


async def _insert_large(database: Database, row: Row) -> None:
    """Make a text exist whose file is there; if it does already, the file is of no more use."""
    try:
        await database[NAME].insert_one({**row, "created_at": datetime.now(UTC)})
    except DuplicateKeyError:
        if not await touch(database, row["organization_id"], row["_id"]):
            # Swept since, or never acknowledged by the majority and lost with its primary: only this file has it now.
            raise TransientError("another wrote the text, and it is gone") from None
        await _files(database).delete(row["file_id"])


async def touch(database: Database, organization_id: str, identity: str) -> bool:
    """Make a text young again, as who names it is about to refer to it and the sweep must not be faster.

    False if there is none.
    """
    key = {"_id": identity, "organization_id": organization_id}
    async with seen_by_later_reads(database):
        touched = await database[NAME].update_one(key, {"$set": {"created_at": datetime.now(UTC)}})
    return touched.matched_count == 1


async def find_beginning(database: Database, organization_id: str, identity: str, *, characters: int) -> str | None:
    """The first `characters` of a text, without reading more of a large one than they take."""
    row = await database[NAME].find_one({"_id": identity, "organization_id": organization_id}, {"pages": 0})
    if row is None:
        return None
    most_bytes = characters * _MOST_BYTES_OF_A_CHARACTER
    text: str = row["text"] if "text" in row else await _read_beginning(database, row["file_id"], most_bytes)
    return text[:characters]


async def find_all(database: Database, organization_id: str, identities: Collection[str]) -> dict[str, StoredText]:
    """Read the stored texts, by id; one whose file is damaged counts as lost."""
    rows = database[NAME].find({"_id": {"$in": list(identities)}, "organization_id": organization_id})
    found = [(row["_id"], await _from_row(database, row)) async for row in rows]
    return {identity: stored for identity, stored in found if stored is not None}


async def _from_row(database: Database, row: Row) -> StoredText | None:
    try:
        text = row["text"] if "text" in row else await _read_file(database, row["file_id"])
    except (NoFile, CorruptGridFile, UnicodeDecodeError) as error:
        # Asked for with texts of others, which are sound.
        log.warning("text.damaged", organization_id=row["organization_id"], error=type(error).__name__)
        return None
    return StoredText(text, tuple((page, start, end) for page, start, end in row["pages"]))


async def older_than(database: Database, age: timedelta, *, after: str | None, limit: int) -> list[str]:
    """Ids of texts of all organizations put longer ago than `age`, in their order."""
    query: Row = {"created_at": {"$lt": datetime.now(UTC) - age}}
    if after is not None:
        query["_id"] = {"$gt": after}
    rows = database[NAME].find(query, {"_id": 1}).sort("_id", ASCENDING).limit(limit)
    return [row["_id"] async for row in rows]


async def delete_if_older(database: Database, identity: str, age: timedelta) -> bool:
    """Delete a text that nobody refers to, unless it was put again meanwhile."""
    row = await database[NAME].find_one_and_delete(
        {"_id": identity, "created_at": {"$lt": datetime.now(UTC) - age}}, {"file_id": 1}
    )
    if row is not None and "file_id" in row:
        await _files(database).delete(row["file_id"])
    return row is not None


async def delete_next_stray_file(
    database: Database, age: timedelta, *, after: ObjectId | None
) -> tuple[ObjectId | None, bool]:
    """Look at the next file begun longer ago than `age`, and delete it, or the part there is, if no text names it.

    Returns:
        The file, by which to go on, or None at the end; and whether it was deleted.
    """
    span = {"$lt": ObjectId.from_datetime(datetime.now(UTC) - age), **({"$gt": after} if after else {})}
    piece = await database[f"{NAME}.chunks"].find_one({"files_id": span}, {"files_id": 1}, sort=[("files_id", 1)])
    if piece is None:
        return None, False
    file_id: ObjectId = piece["files_id"]
    if await database[NAME].find_one({"file_id": file_id}, {"_id": 1}):
        return file_id, False
    with suppress(NoFile):  # of an upload that was cut off there are only pieces, and they go all the same
        await _files(database).delete(file_id)
    return file_id, True


def _files(database: Database) -> AsyncGridFSBucket:
    return AsyncGridFSBucket(database, bucket_name=NAME)


async def _read_file(database: Database, file_id: ObjectId) -> str:
    stream = await _files(database).open_download_stream(file_id)
    return (await stream.read()).decode()


async def _read_beginning(database: Database, file_id: ObjectId, size_bytes: int) -> str:
    """Not by the bucket's stream, which asks for 16 MB at once however little is read of it."""
    beginning = bytearray()
    pieces = database[f"{NAME}.chunks"].find({"files_id": file_id}, {"data": 1}).sort("n", ASCENDING).batch_size(1)
    async with pieces:
        async for piece in pieces:
            beginning += piece["data"]
            if len(beginning) >= size_bytes:
                break
    # The last character may have come in part.
    return beginning.decode(errors="ignore")
