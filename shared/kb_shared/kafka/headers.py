from collections.abc import Mapping, Sequence

RecordHeaders = tuple[tuple[str, bytes | None], ...]
"""Headers as read from a record: names may be repeated, values may be any bytes or null."""
Headers = Mapping[str, str] | Sequence[tuple[str, bytes | None]]
"""Headers to send: texts by name, or pairs as read from a record."""


def to_wire(headers: Headers) -> list[tuple[str, bytes | None]]:
    if isinstance(headers, Mapping):
        return [(name, value.encode()) for name, value in headers.items()]
    return list(headers)
