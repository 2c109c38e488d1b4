from collections.abc import Mapping, Sequence

Headers = Mapping[str, str] | Sequence[tuple[str, bytes]]
"""Texts by name; or pairs as they came in a record, where a name may repeat and a value be any bytes."""


def to_wire(headers: Headers) -> list[tuple[str, bytes]]:
    if isinstance(headers, Mapping):
        return [(name, value.encode()) for name, value in headers.items()]
    return list(headers)
