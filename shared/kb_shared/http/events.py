"""Parses a connection into h11 events, within limits."""

from collections.abc import Callable
from typing import Final

import h11

MAX_PIECES: Final = 20_000
"""Limit of pieces of a chunked body. Each takes 5 microseconds to parse, however small it is."""
PIECES_AT_ONCE: Final = 200
"""Number of pieces that a connection parses, in about a millisecond, before others have their turn."""

_CLOSE: Final = (b"connection", b"close")

Event = h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]


class Events(h11.Connection):
    """State of a connection in h11, which pauses after some pieces so that other connections have their turn."""

    def __init__(self, max_head_bytes: int, *, on_request: Callable[[], None], on_pause: Callable[[], None]) -> None:
        """Describe the connection.

        Args:
            max_head_bytes: limit of buffered data that is not yet an event.
            on_request: called for each head.
            on_pause: called when there may be more events, which `next_event` gives after `take_turn`.
        """
        super().__init__(h11.SERVER, max_head_bytes)
        self._on_request = on_request
        self._on_pause = on_pause
        self._pieces = 0
        self._pieces_left = PIECES_AT_ONCE

    def take_turn(self) -> None:
        """Allow another `PIECES_AT_ONCE` pieces."""
        self._pieces_left = PIECES_AT_ONCE

    @property
    def has_more(self) -> bool:
        """Return whether data is buffered that is no event yet, such as a part of a head."""
        return bool(self.trailing_data[0])

    def next_event(self) -> Event:
        """Return the next event. Raises h11.RemoteProtocolError, also for some requests that h11 accepts."""
        if self._pieces_left == 0:
            self._on_pause()
            return h11.NEED_DATA
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._pieces = 0
            self._on_request()
            _check_framing(event)
        elif isinstance(event, h11.Data):
            self._count_piece()
        return event

    def _count_piece(self) -> None:
        self._pieces += 1
        self._pieces_left -= 1
        if self._pieces > MAX_PIECES:
            raise h11.RemoteProtocolError("too many pieces")

    def send_with_data_passthrough(self, event: h11.Event) -> list[bytes] | None:
        # A body that was not read before the response is not read after it either.
        if isinstance(event, h11.Response) and self.their_state is h11.SEND_BODY and _CLOSE not in event.headers:
            event = h11.Response(status_code=event.status_code, headers=[*event.headers, _CLOSE], reason=event.reason)
        return super().send_with_data_passthrough(event)


def _check_framing(request: h11.Request) -> None:
    """Refuse a request whose end two servers could see in different places (RFC 9112, 6.1)."""
    names = {name for name, _ in request.headers}
    if {b"content-length", b"transfer-encoding"} <= names:
        raise h11.RemoteProtocolError("two lengths")
