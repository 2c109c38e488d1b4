"""Stores a text that is too large for an event, as a stream, without holding all of it in memory."""

import codecs
from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request

from kb_api.stored_bytes import StoredBytes
from kb_shared.concurrency.fair_queue import pause_turn
from kb_shared.errors import RequestError
from kb_shared.http.problems import invalid_field
from kb_shared.mongo import document_texts
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import DocumentKey


async def store_text(
    database: Database,
    request: Request,
    *,
    organization_id: str,
    document_id: str,
    stored_bytes: StoredBytes,
    max_bytes: int,
) -> str:
    """Store the body of `request`, UTF-8, as the text of a document, and return its `text_ref` for an event.

    Raises:
        RequestError: 400 `incomplete-body`, 409 `quota-exceeded`, 413 `body-too-large`, 415 `unsupported-media-type`,
            422 `validation-error` for anything but UTF-8 without NUL.
    """
    _check_media_type(request)
    await stored_bytes.require_quota(organization_id)
    pieces = _check_utf8(_read_limited(request, max_bytes=max_bytes))
    return await document_texts.put_stream(database, DocumentKey(organization_id, document_id), pieces)


def _check_media_type(request: Request) -> None:
    media_type, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    charset = parameters.replace(" ", "").replace('"', "")
    if media_type.strip() != "text/plain" or charset not in ("", "charset=utf-8"):
        raise RequestError(
            415, "unsupported-media-type", "Send the text in UTF-8 with `Content-Type: text/plain; charset=utf-8`."
        )


async def _read_limited(request: Request, *, max_bytes: int) -> AsyncIterator[bytes]:
    received = 0
    pieces = request.stream()
    try:
        while True:
            # A slow sender must not keep other requests of its organization waiting.
            async with pause_turn():
                piece = await anext(pieces, None)
            if piece is None:
                return
            received += len(piece)
            if received > max_bytes:
                raise RequestError(413, "body-too-large", f"Send at most {max_bytes} bytes.")
            yield piece
    except ClientDisconnect:
        raise RequestError(400, "incomplete-body", "The connection ended before the body did.") from None


async def _check_utf8(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Pass the pieces on, and refuse anything but UTF-8 without NUL, as texts in events are."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        async for piece in pieces:
            decoder.decode(piece)
            if b"\x00" in piece:
                raise invalid_field("body", "must not contain NUL characters")
            yield piece
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise invalid_field("body", "must be UTF-8") from None
