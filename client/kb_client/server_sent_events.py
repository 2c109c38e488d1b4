"""Reads server-sent events (`text/event-stream`) line by line."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class EventStreamParser:
    """Collects lines until an event is complete."""

    last_id: str | None = None
    """`id` of the last block that is complete, also of one without data."""
    _name: str = "message"
    _id: str | None = None
    _data: list[str] = field(default_factory=list)

    def feed(self, line: str) -> tuple[str, str] | None:
        """Take one line without its end; return name and data of an event that ends with it."""
        if not line:
            return self._finish_event()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._name = value
        elif name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
        # Comments, which begin with a colon, and other fields have no meaning here.
        return None

    def _finish_event(self) -> tuple[str, str] | None:
        name, data = self._name, self._data
        self._name, self._data = "message", []
        # Not before: a client that continues behind an id must have had all of its event.
        self.last_id = self._id
        return (name, "\n".join(data)) if data else None
