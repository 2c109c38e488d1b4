"""Limits the connections of a server, and decides which one is closed when there are too many."""

from collections.abc import Callable, Hashable
from typing import Final

FIRST_REQUEST_GRACE_S: Final = 0.1
"""Seconds for which a new connection is kept for its first request, however many others are opened."""
SURPLUS: Final = 0.25
"""Share of the limit by which it may be exceeded while new connections send their first request."""

Close = Callable[[], None]


class ConnectionLimit:
    """Closes the connection that has waited longest without a request, so that a new one can be opened.

    Connections without any request are closed first, so that opening many of them does not close those of others.
    """

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._limit_with_surplus = limit + int(limit * SURPLUS)
        # Each in the order in which connections entered the state.
        self._new: dict[Hashable, Close] = {}
        self._unused: dict[Hashable, Close] = {}
        self._idle: dict[Hashable, Close] = {}
        self._busy: dict[Hashable, Close] = {}

    def add(self, connection: Hashable, close: Close) -> bool:
        """Count a new connection, and close another one if there are too many.

        Args:
            connection: the new connection.
            close: function that closes it at once.

        Returns:
            False if it must be refused: all others have a request in progress, or have just been opened.
        """
        self._new[connection] = close
        if self._count <= self._limit or _close_oldest(self._unused):
            return True
        if self._count <= self._limit_with_surplus and len(self._busy) < self._limit:
            return True
        return _close_oldest(self._idle)

    def allow_closing(self, connection: Hashable) -> None:
        """Allow a new connection to be closed if no request has come over it."""
        if connection in self._new:
            self._move(connection, self._unused)

    def busy(self, connection: Hashable) -> None:
        """Keep the connection: a request has come over it."""
        self._move(connection, self._busy)

    def idle(self, connection: Hashable) -> None:
        """Allow the connection to be closed: its request was answered."""
        self._move(connection, self._idle)

    def remove(self, connection: Hashable) -> None:
        """Forget a connection that has ended."""
        self._pop(connection)

    @property
    def _count(self) -> int:
        return len(self._new) + len(self._unused) + len(self._idle) + len(self._busy)

    def _move(self, connection: Hashable, to: dict[Hashable, Close]) -> None:
        close = self._pop(connection)
        if close is not None:
            to[connection] = close

    def _pop(self, connection: Hashable) -> Close | None:
        for kind in (self._busy, self._idle, self._new, self._unused):
            if connection in kind:
                return kind.pop(connection)
        return None


def _close_oldest(kind: dict[Hashable, Close]) -> bool:
    if not kind:
        return False
    close = kind.pop(next(iter(kind)))
    close()
    return True
