"""Sends one request to the address of a webhook. The address is checked when the connection is opened."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final
from urllib.parse import urlsplit

import httpx

from kb_api.webhooks.attempt_errors import PUT_OFF, AttemptPhase, error_slug, slug_of_status, timeout_slug
from kb_api.webhooks.signatures import sign
from kb_shared.providers.provider_errors import retry_after_s
from kb_shared.providers.public_addresses import NotPublic, public_addresses_of
from kb_shared.providers.public_transport import transport_to_named_addresses

ATTEMPT_WITHIN_S: Final = 10.0
"""Time limit of an attempt, from the look-up of the name to the head of the answer."""
USER_AGENT: Final = "knowledge-bases-webhooks/1"


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """Outcome of one request."""

    status: int | None
    """HTTP status; None if no answer came."""
    error: str | None
    """Slug of what went wrong; None if the receiver has taken the event."""
    duration_s: float
    retry_after_s: float | None = None
    """`Retry-After` of the answer; None if there is none that can be read."""

    @property
    def asks_for_pause(self) -> bool:
        """Return whether the receiver wants no event for now."""
        return self.error == PUT_OFF


class WebhookSender:
    """Sends requests over connections that it keeps; one per process."""

    def __init__(self, *, allow_private: bool) -> None:
        """Construct it; with `allow_private` addresses may be private or not https."""
        self._allow_private = allow_private
        # A redirect could lead to any address.
        self._http = httpx.AsyncClient(
            transport=transport_to_named_addresses(private=allow_private),
            follow_redirects=False,
            timeout=ATTEMPT_WITHIN_S,
            headers={"User-Agent": USER_AGENT},
            trust_env=False,
        )

    async def is_allowed(self, url: str) -> bool:
        """Return whether organizations may have events sent to this address. Each new connection checks it again."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port or 443
        except ValueError:
            return False
        if not host or parts.username or parts.password or parts.fragment or parts.scheme not in {"https", "http"}:
            return False
        if self._allow_private:
            return True
        if parts.scheme != "https":
            return False
        try:
            await public_addresses_of(host, port)
        except NotPublic:
            return False
        return True

    async def send(self, url: str, body: bytes, *, message_id: str, secrets_in_use: Sequence[str]) -> AttemptOutcome:
        """Send an event, once."""
        began = monotonic()
        status: int | None = None
        asked_pause_s: float | None = None
        phase = AttemptPhase()
        signed = sign(body, message_id=message_id, timestamp_s=int(time.time()), secrets_in_use=secrets_in_use)
        headers = {"Content-Type": "application/json", **signed}
        try:
            # The body of the answer is not read.
            async with (
                asyncio.timeout(ATTEMPT_WITHIN_S),
                self._http.stream(
                    "POST", url, content=body, headers=headers, extensions={"trace": phase.follow}
                ) as response,
            ):
                status = response.status_code
                asked_pause_s = retry_after_s(response.headers)
        except (TimeoutError, httpx.TimeoutException):
            error: str | None = timeout_slug(phase)
        except (httpx.HTTPError, httpx.InvalidURL) as failure:
            error = error_slug(failure, phase)
        else:
            error = slug_of_status(status)
        return AttemptOutcome(status, error, monotonic() - began, asked_pause_s)

    async def close(self) -> None:
        await self._http.aclose()
