"""Reads server-sent events (`text/event-stream`) line by line."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class EventStreamParser:
    """Collects lines until an event is complete."""

    _name: str = "message"
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
        # Comments, which begin with a colon, and other fields have no meaning here.
        return None

    def _finish_event(self) -> tuple[str, str] | None:
        name, data = self._name, self._data
        self._name, self._data = "message", []
        return (name, "\n".join(data)) if data else None
