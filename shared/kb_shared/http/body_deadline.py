"""Deadline for receiving a body."""

import asyncio
from typing import Final

from starlette.types import Message, Receive

from kb_shared.errors import RequestError

MIN_BYTES_PER_S: Final = 100_000
"""Number of bytes for which a body may take a second longer."""


class BodyDeadline:
    """Passes on the messages of a request until its deadline."""

    def __init__(self, receive: Receive, *, timeout_s: float) -> None:
        self._receive = receive
        self._timeout_s = timeout_s
        self._ends_at = asyncio.get_running_loop().time() + timeout_s
        self._is_complete = False

    async def __call__(self) -> Message:
        """Return the next message. Raises RequestError 408 if the body takes too long."""
        if self._is_complete:
            # The next message is the end of the connection, which has no deadline.
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._ends_at):
                message = await self._receive()
        except TimeoutError:
            raise RequestError(
                408,
                "request-timeout",
                f"Send the body within {self._timeout_s:g} s, and a second more for each {MIN_BYTES_PER_S} bytes.",
            ) from None
        self._ends_at += len(message.get("body", b"")) / MIN_BYTES_PER_S
        self._is_complete = not message.get("more_body", False)
        return message
