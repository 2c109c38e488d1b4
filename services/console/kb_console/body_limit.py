"""Limits the bodies of requests."""

from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

UPLOADS: Final = "/uploads"
"""End of the paths that take files."""
_FORM_BYTES: Final = 4_000_000
_OVERHEAD_BYTES: Final = 100_000
"""Greatest number of bytes that a form adds to the file in it."""


class BodyTooLarge(Exception):
    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the body has more than {max_bytes} bytes")
        self.max_bytes = max_bytes


class BodyLimit:
    """Raises `BodyTooLarge` before a longer body is read, or while it is."""

    def __init__(self, app: ASGIApp, *, max_upload_bytes: int) -> None:
        self._app = app
        self._max_upload_bytes = max_upload_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_upload = scope["path"].endswith(UPLOADS)
        max_bytes = self._max_upload_bytes + _OVERHEAD_BYTES if is_upload else _FORM_BYTES
        announced = Headers(scope=scope).get("content-length", "0")
        if not announced.isdecimal() or int(announced) > max_bytes:
            raise BodyTooLarge(max_bytes)
        received = 0

        async def receive_within_limit() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > max_bytes:
                raise BodyTooLarge(max_bytes)
            return message

        await self._app(scope, receive_within_limit, send)
