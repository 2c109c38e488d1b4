"""Addresses of pages. What a page shows is in its address, so that a link shows the same to a colleague."""

from functools import lru_cache
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

ROOT: Final = "/console"
SIGN_IN: Final = "/console/sign-in"
OF_ORGANIZATION: Final = "/console/orgs/{organization_id}"
"""Beginning of the paths of all pages of an organization."""
LIST: Final = "knowledge-bases"
DOCUMENTS: Final = "documents"
KNOWLEDGE: Final = "knowledge"
ENTRIES: Final = (KNOWLEDGE, "entries")
"""Ids of entries are chosen by their authors, so they are not beside the names of other pages."""


def page_address(organization_id: str, *segments: str, **query: object) -> str:
    """Return the address of a page of an organization. Parameters without a value are left out."""
    path = "/".join(map(_quote, (organization_id, *segments)))
    given = {name: value for name, value in query.items() if value not in (None, "", [])}
    return f"{ROOT}/orgs/{path}" + (f"?{urlencode(given, doseq=True)}" if given else "")


@lru_cache(maxsize=4_096)
def _quote(segment: str) -> str:
    return quote(segment, safe="")


def sign_in_address(*, then: str | None = None, has_ended: bool = False) -> str:
    """Return the address of the sign-in, which leads to `then` afterwards and says if a session has ended."""
    given = {"then": then, "ended": "true" if has_ended else None}
    query = urlencode({name: value for name, value in given.items() if value is not None})
    return f"{SIGN_IN}?{query}" if query else SIGN_IN


def own_address(given: str | None) -> str:
    """Return `given` if it is an address of the console, else that of its first page: links must not lead elsewhere."""
    if given is None or not given.startswith(f"{ROOT}/") or "\\" in given or not given.isprintable():
        return f"{ROOT}/"
    parts = urlsplit(given)
    return given if not parts.scheme and not parts.netloc else f"{ROOT}/"
