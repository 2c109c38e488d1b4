from collections.abc import Mapping, Sequence

Headers = Mapping[str, str] | Sequence[tuple[str, bytes]]
"""Headers of a record: texts by name, or pairs as read from a record, with repeated names and any bytes."""


def to_wire(headers: Headers) -> list[tuple[str, bytes]]:
    if isinstance(headers, Mapping):
        return [(name, value.encode()) for name, value in headers.items()]
    return list(headers)
