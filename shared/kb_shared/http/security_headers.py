"""Headers of every answer, for browsers and caches that get hold of one."""

from typing import Final

SECURITY_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)
NO_STORE: Final = (b"cache-control", b"no-store")
"""Default header: answers belong to the organization of a key, and some hold a secret."""


def with_security_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return `headers` and those that are missing."""
    given = {name.lower() for name, _ in headers}
    return [*headers, *(header for header in (*SECURITY_HEADERS, NO_STORE) if header[0] not in given)]
