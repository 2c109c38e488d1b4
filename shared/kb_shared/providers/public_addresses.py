"""Addresses that a tenant may have us connect to: those of the public internet, none of our own network.

The standard library alone does not know: `is_global` is true of NAT64 and 6to4 forms of 127.0.0.1, and of multicast.
"""

import asyncio
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

SETTING: Final = "KB_ALLOW_PRIVATE_ADDRESSES"
HOW_TO_ALLOW: Final = f"servers of a private network are allowed where the operator sets {SETTING}=true"
"""Words that end the refusal of an address of a provider, source, MCP server or webhook."""
_NAT64: Final = IPv6Network("64:ff9b::/96")
_OLD_TUNNELS: Final = (IPv6Network("::/96"), IPv6Network("2002::/16"), IPv6Network("2001::/32"))
"""IPv4-compatible, 6to4 and Teredo: they lead to IPv4 addresses, and no provider is reached by them."""
_RELAYS: Final = IPv4Network("192.88.99.0/24")


class NotPublic(Exception):
    """The host does not exist, or one of its addresses is not public; it does not say which of the two.

    Otherwise everyone could ask for the names of our network.
    """


async def public_addresses_of(host: str, port: int) -> list[str]:
    """Return where `host` is. Connect to one of these and not to the name, which may mean another place by then.

    Raises:
        NotPublic: not all of them are public.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NotPublic from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    # All of them: which one is connected to must not decide.
    if not addresses or not all(is_public(address) for address in addresses):
        raise NotPublic
    return addresses


def is_public(address: str) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        if parsed.scope_id is not None or any(parsed in network for network in _OLD_TUNNELS):
            return False
        # Packets for these end up at an IPv4 address.
        if parsed in _NAT64 or parsed.ipv4_mapped is not None:
            parsed = IPv4Address(int(parsed) & 0xFFFF_FFFF)
    return parsed.is_global and not (parsed.is_multicast or parsed.is_reserved or parsed in _RELAYS)
