"""Security headers of every response, for browsers and caches."""

from typing import Final

SECURITY_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)
NO_STORE: Final = (b"cache-control", b"no-store")
"""Default header: responses belong to the organization of a key, and some contain a secret."""


def with_security_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return `headers` with the missing security headers."""
    given = {name.lower() for name, _ in headers}
    return [*headers, *(header for header in (*SECURITY_HEADERS, NO_STORE) if header[0] not in given)]
