"""How many connections a server keeps, and which of them goes when there are too many."""

from collections.abc import Callable, Hashable


class Connections:
    """Closes the connection that has waited longest without a request, so that a new one always finds room.

    First those go that have never brought a request: nobody can take the place of others by opening many.
    """

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._count = 0
        # In the order in which they began to wait.
        self._new: dict[Hashable, Callable[[], None]] = {}
        self._idle: dict[Hashable, Callable[[], None]] = {}
        self._busy: dict[Hashable, Callable[[], None]] = {}

    def add(self, connection: Hashable, close: Callable[[], None]) -> bool:
        """Count a new connection, and close another one if there are too many.

        Args:
            connection: that was opened.
            close: closes it at once.

        Returns:
            False if all others have a request under way.
        """
        self._count += 1
        has_room = self._count <= self._limit or self._close_one()
        self._new[connection] = close
        return has_room

    def remove(self, connection: Hashable) -> None:
        """Forget a connection that has ended."""
        self._count -= self._pop(connection) is not None

    def busy(self, connection: Hashable) -> None:
        """Keep the connection: it has brought a request."""
        self._move(connection, self._busy)

    def idle(self, connection: Hashable) -> None:
        """Allow the connection to be closed: its request was answered."""
        self._move(connection, self._idle)

    def _move(self, connection: Hashable, to: dict[Hashable, Callable[[], None]]) -> None:
        close = self._pop(connection)
        if close is not None:
            to[connection] = close

    def _pop(self, connection: Hashable) -> Callable[[], None] | None:
        for waiting in (self._busy, self._new, self._idle):
            if connection in waiting:
                return waiting.pop(connection)
        return None

    def _close_one(self) -> bool:
        for waiting in (self._new, self._idle):
            if waiting:
                close = waiting.pop(next(iter(waiting)))
                self._count -= 1
                close()
                return True
        return False
