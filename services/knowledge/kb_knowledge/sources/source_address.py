"""Addresses that sources may name: http or https, the usual ports, no credentials, a public server.

This is the first of three checks. The transport checks each connection again, when it resolves the name, and the
caller that follows a redirect checks its address as if a user had named it.
"""

from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

import structlog

from kb_shared.observability.metrics import SOURCE_ADDRESSES_REFUSED
from kb_shared.providers.public_addresses import HOW_TO_ALLOW, NotPublic, public_addresses_of

MAX_ADDRESS_CHARACTERS: Final = 2_000
_PORTS: Final = {"http": 80, "https": 443}


RefusalReason: TypeAlias = Literal["form", "not_public"]

_log = structlog.get_logger()


class ForbiddenAddress(Exception):
    """An address that no source may have. The message completes "must be" and quotes nothing."""

    def __init__(self, message: str, *, reason: RefusalReason = "form") -> None:
        super().__init__(message)
        self.reason: RefusalReason = reason


def count_refused(reason: RefusalReason) -> None:
    """Count an address to which nothing was sent."""
    SOURCE_ADDRESSES_REFUSED.labels(reason).inc()
    _log.warning("source.address_refused", reason=reason)


def check_form(url: str, *, allow_private: bool) -> tuple[str, int]:
    """Return host and port of an address, without looking up its name.

    Args:
        url: what a user, a page or a redirect named.
        allow_private: whether other ports are allowed.

    Raises:
        ForbiddenAddress: it can't be an address of a public web server.
    """
    if len(url) > MAX_ADDRESS_CHARACTERS:
        raise ForbiddenAddress(f"an address of at most {MAX_ADDRESS_CHARACTERS} characters")
    # Programs disagree on what these mean.
    if "\\" in url or any(character <= " " or character == "\x7f" for character in url):
        raise ForbiddenAddress("an address without spaces, backslashes and control characters")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ForbiddenAddress("a complete http or https address") from None
    if parts.scheme not in _PORTS or not host:
        raise ForbiddenAddress("a complete http or https address")
    if parts.username is not None or parts.password is not None:
        raise ForbiddenAddress("an address without user name and password")
    port = _PORTS[parts.scheme] if port is None else port
    if port not in _PORTS.values() and not allow_private:
        raise ForbiddenAddress(f"an address with port 80 or 443; other ports, and {HOW_TO_ALLOW}")
    return host, port


async def check_address(url: str, *, allow_private: bool) -> None:
    """Look up the name in an address and check where it leads.

    Raises:
        ForbiddenAddress: it is none of a public web server.
    """
    host, port = check_form(url, allow_private=allow_private)
    if allow_private:
        return
    try:
        await public_addresses_of(host, port)
    except NotPublic:
        raise ForbiddenAddress(
            f"the address of a public server that exists; {HOW_TO_ALLOW}", reason="not_public"
        ) from None
