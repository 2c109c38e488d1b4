"""Lingering close: ends a connection over which the client is still sending."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

LINGER_S: Final = 5.0


class LingeringCloseTransport(asyncio.Transport):
    """Closes a connection so that its last response arrives.

    A connection that is closed with unread data is reset, and the client may lose a response that has already arrived.
    So what the client is still sending is read and dropped, for five seconds at most.
    """

    def __init__(self, transport: asyncio.Transport, is_being_sent: Callable[[], bool]) -> None:
        super().__init__()
        self._transport = transport
        self._is_being_sent = is_being_sent
        self._end: asyncio.TimerHandle | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._transport.write(data)

    def is_closing(self) -> bool:
        """Return whether no further request is read."""
        return self._end is not None or self._transport.is_closing()

    def close(self) -> None:
        """Close the connection, now or when the client has read the response."""
        if self._is_being_sent():
            self.close_after_linger()
        elif not self.is_closing():
            self._transport.close()

    def close_after_linger(self) -> None:
        """Send the written data and the end of the stream; close when the client does or after `LINGER_S`."""
        if self.is_closing():
            return
        self._transport.write_eof()
        self._transport.resume_reading()
        self._end = asyncio.get_running_loop().call_later(LINGER_S, self._transport.abort)

    def abort(self) -> None:
        self._transport.abort()

    def ended(self) -> None:
        """Stop the timer: the connection is lost."""
        if self._end is not None:
            self._end.cancel()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)
