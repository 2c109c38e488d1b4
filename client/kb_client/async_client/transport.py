"""Sends calls: headers, retries, time limits, errors."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from typing import Final
from uuid import uuid4

import httpx
from pydantic import BaseModel

from kb_client.answers import to_error
from kb_client.call import ApiCall, UploadedText
from kb_client.call_options import CONNECT_WITHIN_S, CallOptions
from kb_client.configuration import Configuration
from kb_client.errors import CallTimedOut, ConnectionFailed, KbClientError
from kb_client.header_values import checked_headers
from kb_client.json_encoding import encode_body, encode_parameter
from kb_client.retries import decide_retry

UPLOAD_PIECE_BYTES: Final = 64 * 1024
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)

_log = logging.getLogger("kb_client")


class AsyncTransport:
    """Sends calls to the services of one organization.

    Args:
        configuration: address and key.
        http: connections of the client.
        headers: headers of every request.
    """

    def __init__(self, configuration: Configuration, http: httpx.AsyncClient, *, headers: Mapping[str, str]) -> None:
        self.configuration = configuration
        self.http = http
        self._headers = headers

    async def send(
        self, call: ApiCall[BaseModel], options: CallOptions, *, stream_of: str | None = None
    ) -> httpx.Response:
        """Return the successful answer, which is read to its end unless a stream of this media type is asked for.

        Raises:
            UnusableHeader: an argument can't be sent as a header.
            ApiError: the API refused the request.
            ConnectionFailed: no answer came.
            CallTimedOut: none came in time.
        """
        limit_s = options.limit_s(call.within_s)
        ends_at = time.monotonic() + limit_s
        headers = {**self._headers_of(call, options), "Accept": stream_of or call.accept}
        repeatable = _is_repeatable(call, headers)
        attempt = 0
        while True:
            try:
                return await self._attempt(
                    call, headers, timeout_s=ends_at - time.monotonic(), stream=stream_of is not None
                )
            except KbClientError as error:
                wait_s = None
                if attempt < options.max_retries:
                    remaining_s = ends_at - time.monotonic()
                    wait_s = decide_retry(error, repeatable=repeatable, attempt=attempt, remaining_s=remaining_s)
                if wait_s is None:
                    raise
                _log.debug("%s %s is sent again in %.2f s", call.method, call.path, wait_s)
            await asyncio.sleep(wait_s)
            attempt += 1

    async def _attempt(
        self, call: ApiCall[BaseModel], headers: Mapping[str, str], *, timeout_s: float, stream: bool
    ) -> httpx.Response:
        request = self._request(call, headers, timeout_s=timeout_s)
        try:
            response = await self.http.send(request, stream=stream)
            if response.is_success:
                return response
            await response.aread()
            await response.aclose()
        except httpx.TimeoutException as error:
            if isinstance(error, _NOT_SENT) and timeout_s > CONNECT_WITHIN_S:
                raise self._not_reached(error) from error
            raise CallTimedOut(f"{call.method} {call.path} got no answer within {timeout_s:.1f} s") from error
        except httpx.HTTPError as error:
            raise self._not_reached(error) from error
        _log.debug("%s %s was answered %d", call.method, call.path, response.status_code)
        raise to_error(response)

    def _request(self, call: ApiCall[BaseModel], headers: Mapping[str, str], *, timeout_s: float) -> httpx.Request:
        content: bytes | AsyncIterator[bytes] | None = None
        if call.upload is not None:
            content = _pieces(call.upload)
        elif call.body is not None:
            content = encode_body(call.body)
        return self.http.build_request(
            call.method,
            self.configuration.url_of(call.relative_path()),
            params={name: encode_parameter(value) for name, value in call.given_query().items()},
            headers=headers,
            content=content,
            timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_WITHIN_S)),
        )

    def _headers_of(self, call: ApiCall[BaseModel], options: CallOptions) -> dict[str, str]:
        headers = {
            "Authorization": f"Bearer {self.configuration.api_key}",
            **self._headers,
            **checked_headers(call.given_headers()),
        }
        if call.upload is not None:
            headers |= {
                "Content-Type": call.upload.content_type,
                "Content-Length": str(len(call.upload.content)),
            }
        elif call.body is not None:
            headers["Content-Type"] = "application/json"
        if call.method == "POST" and not call.only_reads:
            headers |= checked_headers({IDEMPOTENCY_KEY: options.idempotency_key or str(uuid4())})
        return headers

    def _not_reached(self, error: httpx.HTTPError) -> ConnectionFailed:
        was_sent = not isinstance(error, _NOT_SENT)
        what = "closed the connection before its answer" if was_sent else "can't be reached"
        return ConnectionFailed(
            f"{self.configuration.base_url} {what} ({type(error).__name__}: {error}). Is it running, and the address"
            " right?",
            was_sent=was_sent,
        )


async def _pieces(upload: UploadedText) -> AsyncIterator[bytes]:
    total = len(upload.content)
    for start in range(0, total, UPLOAD_PIECE_BYTES):
        piece = upload.content[start : start + UPLOAD_PIECE_BYTES]
        yield piece
        # The connection has taken the piece when it asks for the next one.
        if upload.on_progress is not None:
            upload.on_progress(start + len(piece), total)


def _is_repeatable(call: ApiCall[BaseModel], headers: Mapping[str, str]) -> bool:
    """Say whether the call does no harm after it took effect."""
    if "If-Match" in headers:
        # The second request would be refused because of the change that the first one made.
        return False
    return call.method != "POST" or call.only_reads or IDEMPOTENCY_KEY in headers
