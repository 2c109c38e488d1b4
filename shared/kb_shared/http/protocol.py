"""HTTP/1.1 as httptools parses it, which takes less CPU than h11, with the bounds and clear errors that it lacks."""

import json
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kb_shared.http.request_context import HEADER

MAX_HEAD_BYTES: Final = 64 * 1024
"""Of a request without its body."""
STEP_BYTES: Final = 16 * 1024
"""What is parsed between two looks at how much has come: a request may have as much more."""
_OFFERS: Final = (b"upgrade", b"http2-settings")


class Protocol(HttpToolsProtocol):
    """One connection."""

    _beside_bodies = 0
    """Bytes that came since a head or a piece of a body was complete; as many wait in memory."""

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        read = memoryview(data)
        for start in range(0, len(read), STEP_BYTES):
            if self.transport.is_closing():
                return
            self._take(read[start : start + STEP_BYTES])

    def _take(self, data: memoryview) -> None:
        self._beside_bodies += len(data)
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self._refuse(HTTPStatus.BAD_REQUEST, "not-http", "Send requests as HTTP/1.1 has them; this is none.")
            return
        if self._beside_bodies > MAX_HEAD_BYTES:
            self._refuse(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                "headers-too-large",
                f"Send at most {MAX_HEAD_BYTES} bytes of URL and headers.",
            )

    def on_headers_complete(self) -> None:
        self._beside_bodies = 0
        if not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._beside_bodies = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def _parse(self, data: memoryview) -> None:
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                # Java's client offers HTTP/2 with each first request. The parser takes what follows for the other
                # protocol then, and what we are to do is to ignore the offer.
                data = data[upgrade.args[0] :]
                head = self._head_without_offer()
                self.parser = httptools.HttpRequestParser(self)
                self.parser.feed_data(head)
            else:
                return

    def _head_without_offer(self) -> bytes:
        method = self.parser.get_method()
        if method == b"CONNECT":
            raise httptools.HttpParserInvalidMethodError
        version = self.parser.get_http_version().encode()
        fields = [name + b": " + value for name, value in self.headers if name not in _OFFERS]
        return b"\r\n".join([method + b" " + self.url + b" HTTP/" + version, *fields, b"", b""])

    def _refuse(self, status: HTTPStatus, slug: str, detail: str) -> None:
        """Answer with a problem, where no application can, and close."""
        request_id = secrets.token_hex(16)
        problem = {
            "type": slug,
            "title": slug.replace("-", " ").capitalize(),
            "status": status,
            "detail": detail,
            "request_id": request_id,
        }
        body = json.dumps(problem).encode()
        headers = {
            "content-type": "application/problem+json",
            "content-length": str(len(body)),
            HEADER: request_id,
            "connection": "close",
        }
        self.transport.write(_head(status, headers) + body)
        self.transport.close()


def _head(status: HTTPStatus, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {status.phrase}", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode()
