"""Writes the mail addresses that a page hides from robots, and that its script shows to readers."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bs4 import BeautifulSoup

_ENCODED: Final = "data-cfemail"
"""Attribute of Cloudflare: bytes in hexadecimal, of which the first one is the key of the others."""


def show_addresses(soup: "BeautifulSoup") -> None:
    """Replace `[email protected]` by the address that stands for it."""
    for element in soup.find_all(attrs={_ENCODED: True}):
        try:
            key, *encoded = bytes.fromhex(str(element[_ENCODED]))
            address = bytes(each ^ key for each in encoded).decode()
        except ValueError:
            continue
        if "@" in address and address.isprintable():
            element.string = address
