"""Which connection goes when there are too many."""

from functools import partial

from kb_shared.http.connection_limit import ConnectionLimit


class OpenedConnection:
    """Connections by their names."""

    def __init__(self, *, limit: int) -> None:
        self.connections = ConnectionLimit(limit=limit)
        self.closed: list[str] = []

    def add(self, *names: str) -> list[bool]:
        return [self.connections.add(name, partial(self.closed.append, name)) for name in names]


def test_the_oldest_connection_without_a_request_is_closed_first_and_then_idle_ones() -> None:
    opened = OpenedConnection(limit=4)
    opened.add("idle", "silent-1", "silent-2", "busy")
    opened.connections.busy("idle")
    opened.connections.idle("idle")
    opened.connections.busy("busy")
    for name in ("silent-1", "silent-2"):
        opened.connections.allow_closing(name)
    assert opened.add("a", "b") == [True, True]
    assert opened.closed == ["silent-1", "silent-2"]
    # One more than the limit there may be for a moment.
    assert opened.add("c", "d") == [True, True]
    assert opened.closed == ["silent-1", "silent-2", "idle"]


def test_a_connection_that_was_just_opened_is_kept_for_its_first_request() -> None:
    opened = OpenedConnection(limit=4)
    # A quarter more than the limit.
    assert opened.add("a", "b", "c", "d", "e", "f") == [True, True, True, True, True, False]
    opened.connections.busy("a")
    opened.connections.allow_closing("a")
    opened.connections.allow_closing("b")
    opened.add("g")
    assert opened.closed == ["b"]


def test_where_all_have_a_request_there_is_no_room() -> None:
    opened = OpenedConnection(limit=4)
    opened.add(*"abcd")
    for name in "abcd":
        opened.connections.busy(name)
    assert opened.add("e") == [False]
    opened.connections.remove("e")
    opened.connections.remove("a")
    assert opened.add("f") == [True]
    assert opened.closed == []
