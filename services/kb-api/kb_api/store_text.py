"""Takes in a text that is too large for an event, as it comes, without holding it."""

import codecs
from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request

from kb_api.services import Services
from kb_shared.concurrency.fair_queue import turn_set_aside
from kb_shared.errors import RequestError
from kb_shared.http.authentication import Caller
from kb_shared.http.problems import invalid_field
from kb_shared.mongo import document_texts


async def store_text(api: Services, caller: Caller, document_id: str, request: Request) -> str:
    """Store the body of `request`, UTF-8, for a document; returns the `text_ref` that an event names it by.

    Raises:
        RequestError: 400 `incomplete-body`, 409 `quota-exceeded`, 413 `body-too-large`, 415 `unsupported-media-type`,
            422 `validation-error` for what is no usable text.
    """
    _check_media_type(request)
    await api.stored_bytes.require_room(caller.organization_id)
    pieces = _checked(_limited(request, api.settings.max_text_bytes))
    return await document_texts.put_stream(api.database, caller.organization_id, document_id, pieces)


def _check_media_type(request: Request) -> None:
    media_type, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    charset = parameters.replace(" ", "").replace('"', "")
    if media_type.strip() != "text/plain" or charset not in ("", "charset=utf-8"):
        raise RequestError(
            415, "unsupported-media-type", "Send the text in UTF-8 with `Content-Type: text/plain; charset=utf-8`."
        )


async def _limited(request: Request, most_bytes: int) -> AsyncIterator[bytes]:
    received = 0
    pieces = request.stream()
    try:
        while True:
            # Who sends slowly keeps no other request of the organization waiting.
            async with turn_set_aside():
                piece = await anext(pieces, None)
            if piece is None:
                return
            received += len(piece)
            if received > most_bytes:
                raise RequestError(413, "body-too-large", f"Send at most {most_bytes} bytes.")
            yield piece
    except ClientDisconnect:
        raise RequestError(400, "incomplete-body", "The connection ended before the body did.") from None


async def _checked(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Pass on what is UTF-8 without NUL, as texts in events are."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        async for piece in pieces:
            decoder.decode(piece)
            if b"\x00" in piece:
                raise invalid_field("body", "Input should not contain NUL characters")
            yield piece
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise invalid_field("body", "Input should be UTF-8") from None
