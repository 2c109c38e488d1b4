"""HTTP/1.1 as h11 parses it, which is slower than httptools and makes none of its mistakes (ADR 0013)."""

import json
import secrets
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from kb_shared.http.request_context import HEADER, PROBLEM_MEDIA_TYPE, problem_body

MAX_HEAD_BYTES: Final = 64 * 1024
"""Of URL and headers; what comes in one read, of 256 KB at most, may have more."""


class Protocol(H11Protocol):
    """One connection, which is told in a problem what is wrong with what came over it."""

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # the same whatever it is
        # What is left of an answer that has begun would be read as a part of it.
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            request_id = secrets.token_hex(16)
            detail = f"Send requests as HTTP/1.1 has them, with up to {MAX_HEAD_BYTES} bytes of URL and headers."
            body = json.dumps(problem_body(400, "not-http", detail, request_id=request_id)).encode()
            headers = [
                ("content-type", PROBLEM_MEDIA_TYPE),
                ("content-length", str(len(body))),
                (HEADER, request_id),
                ("connection", "close"),
            ]
            answer = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
