"""`document_texts`: immutable texts of document revisions, each written before anything refers to it.

Texts of more than 1 MB are files in GridFS, which the row names. Such a text exists once its row is inserted. The id
contains organization and document, so the `text_ref` of another organization can be recognized without a query.
"""

import codecs
import hashlib
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
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
from kb_shared.mongo.rows import RowMapper

NAME = "document_texts"
_BY_BYTES: Final = {"organization_id": ASCENDING, "bytes": ASCENDING}
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("document_id", ASCENDING)]),
    IndexModel([("file_id", ASCENDING)], sparse=True),
    IndexModel(list(_BY_BYTES.items())),
    # For the sweep of old texts, so that it need not read the texts.
    IndexModel([("_id", ASCENDING), ("created_at", ASCENDING)]),
]

_INLINE_BYTES = 1_000_000
_MOST_BYTES_OF_A_CHARACTER = 4
_BYTES_PER_INSERT: Final = 1_000_000
_PIECES_PER_BATCH: Final = 4
"""Number of pieces of a file, of 255 kB each, that are read at once."""
# PyMongo has no parameter for this. By default it buffers up to 32 MB of an upload and encodes them at once, which
# blocks the event loop for 100 ms.
grid_file._UPLOAD_BUFFER_SIZE = _BYTES_PER_INSERT  # type: ignore[attr-defined]  # noqa: SLF001  # see above

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class StoredText:
    text: str
    pages: tuple[tuple[int, int, int], ...]
    """Pages as (page, start, end) in characters, in the order of the text."""
    embedding_text: str | None = None
    """Text that is embedded in place of `text`; None: `text` is."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """Consecutive characters of a text."""

    text: str
    length: int
    """Number of characters of the whole text."""
    pages: tuple[tuple[int, int, int], ...]
    """All pages of the text."""
    embedding_text: str | None = None


@dataclass(frozen=True, slots=True)
class _TextRow:
    """Row of a text, which has the text itself or names its file."""

    identity: str
    organization_id: str
    text: str | None = None
    file_id: ObjectId | None = None
    pages: tuple[tuple[int, int, int], ...] = ()
    bytes: int | None = None
    """Size in UTF-8; rows of older versions have none."""
    embedding_text: str | None = None


def _pages(stored: Iterable[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    return tuple((page, start, end) for page, start, end in stored)


_ROWS: Final = RowMapper(_TextRow, names={"identity": "_id"}, convert={"pages": _pages})


class NewText:
    """Text to store; `identity` is the id by which documents refer to it."""

    def __init__(
        self,
        document: DocumentKey,
        text: str,
        pages: Sequence[tuple[int, int, int]] = (),
        *,
        embedding_text: str | None = None,
    ) -> None:
        self.text = text
        self.length = len(text)
        self.encoded = text.encode()
        self.identity = text_id(document, text, pages, embedding_text=embedding_text)
        self.key = {"_id": self.identity, "organization_id": document.organization_id}
        self.fields: Row = {
            "document_id": document.document_id,
            "pages": [list(page) for page in pages],
            "bytes": len(self.encoded),
        }
        if embedding_text is not None:
            self.fields["embedding_text"] = embedding_text
            self.fields["bytes"] = len(self.encoded) + len(embedding_text.encode())


def text_id(
    document: DocumentKey, text: str, pages: Sequence[tuple[int, int, int]], *, embedding_text: str | None = None
) -> str:
    """Compute the id of a text. The same content always has the same id, so that storing it twice stores it once."""
    return _identity(document, hashlib.sha256(text.encode()), pages, embedding_text=embedding_text)


def _identity(
    document: DocumentKey,
    of_text: "hashlib._Hash",
    pages: Sequence[tuple[int, int, int]],
    *,
    embedding_text: str | None = None,
) -> str:
    of_text.update(repr(tuple(pages)).encode())
    if embedding_text is not None:
        # No text contains NUL, so no other text has these bytes. Without an embedding text, ids are those of old.
        of_text.update(b"\x00" + embedding_text.encode())
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
    """Store several texts, as `put` does."""
    small = [text for text in texts if len(text.encoded) <= _INLINE_BYTES]
    if small:
        await upsert_all(database[NAME], [_upsert(text) for text in small])
    for text in texts:
        if len(text.encoded) > _INLINE_BYTES:
            await _put_large(database, text)


def _upsert(text: NewText) -> UpdateOne:
    return UpdateOne(
        text.key,
        # With a new age: the caller is about to refer to the text, and the sweep must not delete it before.
        {"$set": {"created_at": datetime.now(UTC)}, "$setOnInsert": {**text.fields, "text": text.text}},
        upsert=True,
    )


async def _put_large(database: Database, text: NewText) -> None:
    if await touch(database, text.key["organization_id"], text.identity):
        return
    file_id = await _files(database).upload_from_stream(text.identity, text.encoded)
    await _insert_large(database, {**text.key, **text.fields, "file_id": file_id})


async def put_stream(database: Database, document: DocumentKey, pieces: AsyncIterator[bytes]) -> str:
    """Store a streamed UTF-8 text without pages; return its id. If `pieces` raises, nothing is stored."""
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


async def count_stored_bytes(database: Database, organization_id: str) -> int:
    """Return the total size of the texts of an organization in UTF-8; rows of older versions count as 0."""
    stages: list[Row] = [
        {"$match": {"organization_id": organization_id}},
        # From the index alone, without reading texts.
        {"$group": {"_id": None, "bytes": {"$sum": "$bytes"}}},
    ]
    rows = await database[NAME].aggregate(stages, hint=_BY_BYTES)
    return sum([row["bytes"] async for row in rows])


async def _insert_large(database: Database, row: Row) -> None:
    """Insert the row of a text whose file is stored; if the row exists already, delete the file."""
    try:
        await database[NAME].insert_one({**row, "created_at": datetime.now(UTC)})
    except DuplicateKeyError:
        if not await touch(database, row["organization_id"], row["_id"]):
            # The other row was swept, or lost with its primary: only the file of this call has the text now.
            raise TransientError("the row of another writer of the same text is gone") from None
        await _files(database).delete(row["file_id"])


async def touch(database: Database, organization_id: str, identity: str) -> bool:
    """Reset the age of a text, because the caller is about to refer to it; False if it does not exist.

    So the sweep does not delete it first.
    """
    key = {"_id": identity, "organization_id": organization_id}
    async with seen_by_later_reads(database):
        touched = await database[NAME].update_one(key, {"$set": {"created_at": datetime.now(UTC)}})
    return touched.matched_count == 1


async def find_beginning(
    database: Database, organization_id: str, identity: str, *, characters: int
) -> StoredText | None:
    """Return the first `characters` of a text, without its pages; None if it does not exist.

    Of a large one, no more is read.
    """
    row = await database[NAME].find_one({"_id": identity, "organization_id": organization_id}, {"pages": 0})
    if row is None:
        return None
    stored = _ROWS.read(row)
    most_bytes = characters * _MOST_BYTES_OF_A_CHARACTER
    text = stored.text if stored.text is not None else await _read_beginning(database, stored.file_id, most_bytes)
    return StoredText(text[:characters], (), stored.embedding_text)


async def find_part(
    database: Database, organization_id: str, identity: str, *, start: int, end: int
) -> TextPart | None:
    """Return the characters from `start` to before `end`; None if the text does not exist or its file is damaged.

    A large text is read piece by piece, to its end, because only then its length is known.
    """
    row = await database[NAME].find_one({"_id": identity, "organization_id": organization_id})
    if row is None:
        return None
    stored = _ROWS.read(row)
    if stored.text is not None:
        return TextPart(stored.text[start:end], len(stored.text), stored.pages, stored.embedding_text)
    part: list[str] = []
    length = read_bytes = 0
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        # Not the stream of the bucket, which fetches 16 MB at once. The file is that of the organization's row above.
        of_file = {"files_id": stored.file_id}
        pieces = database[f"{NAME}.chunks"].find(of_file, {"data": 1})  # nosemgrep: tenant-query-without-organization
        async for piece in pieces.sort("n", ASCENDING).batch_size(_PIECES_PER_BATCH):
            text = decoder.decode(piece["data"])
            read_bytes += len(piece["data"])
            part.append(text[max(0, start - length) : max(0, end - length)])
            length += len(text)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        read_bytes = -1
    if read_bytes <= 0 or stored.bytes not in (None, read_bytes):
        log.warning("text.damaged", organization_id=organization_id)
        return None
    return TextPart("".join(part), length, stored.pages, stored.embedding_text)


async def find_size_bytes(database: Database, organization_id: str, identity: str) -> int | None:
    """Return the size of a text in UTF-8; None if there is none, or if an older version stored it."""
    row = await database[NAME].find_one({"_id": identity, "organization_id": organization_id}, {"bytes": 1})
    return row.get("bytes") if row else None


async def find_sizes_bytes(database: Database, organization_id: str, identities: Collection[str]) -> dict[str, int]:
    """Return the sizes of texts in UTF-8, by id; one that an older version stored is absent."""
    query = {"_id": {"$in": list(identities)}, "organization_id": organization_id, "bytes": {"$exists": True}}
    return {row["_id"]: row["bytes"] async for row in database[NAME].find(query, {"bytes": 1})}


async def find_all(database: Database, organization_id: str, identities: Collection[str]) -> dict[str, StoredText]:
    """Return the stored texts, by id; a text with a damaged file is absent."""
    rows = database[NAME].find({"_id": {"$in": list(identities)}, "organization_id": organization_id})
    found = [(row["_id"], await _from_row(database, _ROWS.read(row))) async for row in rows]
    return {identity: stored for identity, stored in found if stored is not None}


async def _from_row(database: Database, row: _TextRow) -> StoredText | None:
    try:
        text = row.text if row.text is not None else await _read_file(database, row.file_id)
    except (NoFile, CorruptGridFile, UnicodeDecodeError) as error:
        # The query may include intact texts of others.
        log.warning("text.damaged", organization_id=row.organization_id, error=type(error).__name__)
        return None
    return StoredText(text, row.pages, row.embedding_text)


async def find_older_than(database: Database, age: timedelta, *, after: str | None, limit: int) -> list[str]:
    """Return ids of texts of all organizations that are older than `age`, in the order of the ids."""
    query: Row = {"created_at": {"$lt": datetime.now(UTC) - age}}
    if after is not None:
        query["_id"] = {"$gt": after}
    rows = database[NAME].find(query, {"_id": 1}).sort("_id", ASCENDING).limit(limit)
    return [row["_id"] async for row in rows]


async def delete_if_older(database: Database, identity: str, age: timedelta) -> bool:
    """Delete a text without references, unless it was put again meanwhile."""
    row = await database[NAME].find_one_and_delete(
        {"_id": identity, "created_at": {"$lt": datetime.now(UTC) - age}}, {"file_id": 1}
    )
    if row is not None and "file_id" in row:
        await _files(database).delete(row["file_id"])
    return row is not None


async def delete_next_stray_file(
    database: Database, age: timedelta, *, after: ObjectId | None
) -> tuple[ObjectId | None, bool]:
    """Check the next file that is older than `age`, and delete it, complete or not, if no text refers to it.

    Returns:
        The file, after which to continue, or None at the end; and whether it was deleted.
    """
    span = {"$lt": ObjectId.from_datetime(datetime.now(UTC) - age), **({"$gt": after} if after else {})}
    piece = await database[f"{NAME}.chunks"].find_one({"files_id": span}, {"files_id": 1}, sort=[("files_id", 1)])
    if piece is None:
        return None, False
    file_id: ObjectId = piece["files_id"]
    if await database[NAME].find_one({"file_id": file_id}, {"_id": 1}):
        return file_id, False
    with suppress(NoFile):  # an interrupted upload has only chunks, which are deleted all the same
        await _files(database).delete(file_id)
    return file_id, True


async def delete_files_of_organization(database: Database, organization_id: str) -> int:
    """Delete the files of an organization's long texts; return their number."""
    # "0" follows "/".
    mine = {"filename": {"$gte": f"{organization_id}/", "$lt": f"{organization_id}0"}}
    deleted = 0
    async for row in database[f"{NAME}.files"].find(mine, {"_id": 1}):
        with suppress(NoFile):
            await _files(database).delete(row["_id"])
        deleted += 1
    return deleted


def _files(database: Database) -> AsyncGridFSBucket:
    return AsyncGridFSBucket(database, bucket_name=NAME)


async def _read_file(database: Database, file_id: ObjectId | None) -> str:
    stream = await _files(database).open_download_stream(file_id)
    return (await stream.read()).decode()


async def _read_beginning(database: Database, file_id: ObjectId | None, size_bytes: int) -> str:
    """Read the first bytes of a file, without the stream of the bucket, which fetches 16 MB at once."""
    beginning = bytearray()
    pieces = database[f"{NAME}.chunks"].find({"files_id": file_id}, {"data": 1}).sort("n", ASCENDING).batch_size(1)
    async with pieces:
        async for piece in pieces:
            beginning += piece["data"]
            if len(beginning) >= size_bytes:
                break
    # The last character may be incomplete.
    return beginning.decode(errors="ignore")
