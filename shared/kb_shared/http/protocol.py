"""HTTP/1.1 as h11 parses it, which is slower than httptools and makes none of its mistakes (ADR 0013).

One connection does not delay the others: heads have a deadline, a body is parsed a few pieces at a time, and the rest
of a body after its response is not parsed.
"""

import asyncio
import json
import secrets
from http import HTTPStatus
from typing import Any, Final

import h11
import structlog
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from kb_shared.http.connection_limit import FIRST_REQUEST_GRACE_S, ConnectionLimit
from kb_shared.http.events import MAX_PIECES, Events
from kb_shared.http.lingering_close import LingeringCloseTransport
from kb_shared.http.request_context import HEADER, PROBLEM_MEDIA_TYPE, problem_body
from kb_shared.http.security_headers import with_security_headers
from kb_shared.observability import metrics

MAX_HEAD_BYTES: Final = 64 * 1024
"""Limit of URL and headers; one read, of 256 KB at most, may exceed it."""
HEAD_TIMEOUT_S: Final = 10.0
MAX_CONNECTIONS: Final = 2_000
PAUSE_S: Final = 0.005
"""Seconds between two turns of a body in very small pieces. A wrong key is refused before most of it is parsed."""

LAST_REQUEST_WAIT_S: Final = 0.2
"""Seconds for which idle connections stay open when the server stops."""

_log = structlog.get_logger()


class Protocol(H11Protocol):
    """One connection. Requests that are not valid HTTP get a problem as their response."""

    conn: Events
    _transport: LingeringCloseTransport

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        connections: ConnectionLimit,
        head_timeout_s: float = HEAD_TIMEOUT_S,
    ) -> None:
        """Describe the connection.

        Args:
            config: uvicorn's, as the next three.
            server_state: of all connections.
            app_state: of the application.
            connections: all connections of this server; a new one may replace another.
            head_timeout_s: from the beginning of the connection, or from the first byte of a later request, to the end
                of the request's headers.
        """
        super().__init__(config, server_state, app_state, _loop)
        self.conn = Events(MAX_HEAD_BYTES, on_request=self._request_began, on_pause=self._pause)
        self._all = connections
        self._head_timeout_s = head_timeout_s
        self._head_timer: asyncio.TimerHandle | None = None
        self._in_request = False
        self._is_ending = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self.transport = self._transport = LingeringCloseTransport(transport, self._is_being_sent_to)
        if self._all.add(self, transport.abort):
            self._expect_head()
            self.loop.call_later(FIRST_REQUEST_GRACE_S, self._all.allow_closing, self)
        else:
            detail = "All connections of this service are in use; try again in a second."
            self._refuse(503, "too-many-connections", detail)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._all.remove(self)
        self._transport.ended()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if not self._in_request and self._head_timer is None:
            self._expect_head()
        self.conn.take_turn()
        super().data_received(data)

    def on_response_complete(self) -> None:
        self._in_request = False
        self._all.idle(self)
        super().on_response_complete()
        # What came behind the request may be a part of the next one.
        if not self._in_request and self.conn.has_more and not self.transport.is_closing():
            self._expect_head()

    def handle_events(self) -> None:
        super().handle_events()
        if self._is_ending and self.cycle is not None:
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        """End the connection after the request that is being answered, or that is on its way already.

        A connection that is closed while a request waits in its socket is reset, and the client can't know whether the
        request was handled.
        """
        self._is_ending = True
        if self._transport.is_closing():
            self._transport.abort()
        else:
            self.loop.call_later(LAST_REQUEST_WAIT_S, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if not self._transport.is_closing():
            super().shutdown()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # the same whatever it is
        # What is left of an answer that has begun would be read as a part of it.
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            detail = (
                f"Send valid HTTP/1.1 requests, with up to {MAX_HEAD_BYTES} bytes of URL and headers, up to "
                f"{MAX_PIECES} chunks, and not both Content-Length and Transfer-Encoding."
            )
            self._refuse(400, "not-http", detail)
        else:
            self.transport.close()

    def _request_began(self) -> None:
        self._stop_head_timer()
        self._in_request = True
        self._all.busy(self)

    def _pause(self) -> None:
        self.flow.pause_reading()
        self.loop.call_later(PAUSE_S, self._take_turn)

    def _take_turn(self) -> None:
        if not self.transport.is_closing():
            self.conn.take_turn()
            self.flow.resume_reading()
            self.handle_events()

    def _is_being_sent_to(self) -> bool:
        return self.conn.their_state in (h11.SEND_BODY, h11.ERROR) or self.conn.has_more

    def _expect_head(self) -> None:
        self._stop_head_timer()
        self._head_timer = self.loop.call_later(self._head_timeout_s, self._head_is_late)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self.conn.has_more:
            self._refuse(408, "request-timeout", f"Send URL and headers within {self._head_timeout_s:g} s.")
        else:
            # No request has begun.
            self.transport.close()

    def _refuse(self, status: int, slug: str, detail: str) -> None:
        """Answer with a problem and end the connection."""
        request_id = secrets.token_hex(16)
        metrics.HTTP_REQUESTS.labels(route="", method="", status=str(status)).inc()
        _log.info("http.refused", status=status, problem=slug, request_id=request_id)
        body = json.dumps(problem_body(status, slug, detail, request_id=request_id)).encode()
        headers = [
            (b"content-type", PROBLEM_MEDIA_TYPE.encode()),
            (b"content-length", b"%d" % len(body)),
            (HEADER.encode(), request_id.encode()),
            (b"connection", b"close"),
        ]
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers.append((b"retry-after", b"1"))
        reason = HTTPStatus(status).phrase.encode()
        answer = h11.Response(status_code=status, headers=with_security_headers(headers), reason=reason)
        for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self._abandon_request()
        self._all.idle(self)
        self._transport.close_after_linger()

    def _abandon_request(self) -> None:
        """Tell the application that its response is not needed any more."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
