"""Stores an uploaded file of a source, as a stream, without holding all of it in memory."""

from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request

from kb_contracts.api.knowledge_sources import SourceFile
from kb_knowledge.store import source_files
from kb_knowledge.store.source_files import MAX_FILE_BYTES, FileTooLarge
from kb_shared.concurrency.fair_queue import pause_turn
from kb_shared.errors import RequestError
from kb_shared.mongo.database import Database


async def upload_file(database: Database, request: Request, *, organization_id: str, filename: str) -> SourceFile:
    """Store the body of `request` as a file.

    Raises:
        RequestError: 400 `incomplete-body`, 413 `body-too-large`.
    """
    try:
        file_id, size = await source_files.put(database, organization_id, _read(request), filename=filename)
    except FileTooLarge:
        raise RequestError(413, "body-too-large", f"Send at most {MAX_FILE_BYTES} bytes.") from None
    return SourceFile(file_id=file_id, filename=filename, size_bytes=size)


async def _read(request: Request) -> AsyncIterator[bytes]:
    pieces = request.stream()
    try:
        while True:
            # A slow sender must not keep other requests of its organization waiting.
            async with pause_turn():
                piece = await anext(pieces, None)
            if piece is None:
                return
            yield piece
    except ClientDisconnect:
        raise RequestError(400, "incomplete-body", "The connection ended before the body did.") from None
