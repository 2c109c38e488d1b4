"""One form for all spellings of an address, so that a page is fetched once and has one entry."""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

import httpx

from kb_knowledge.sources.source_address import MAX_ADDRESS_CHARACTERS

_IGNORED_IN_ADDRESSES: Final = str.maketrans("", "", "\t\r\n")
"""Characters that browsers leave out of an address."""
_USUAL_PORTS: Final = {"http": ":80", "https": ":443"}
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_SESSION_IN_PATH: Final = re.compile(r";(?:jsessionid|phpsessid|sid)=[^/;]*", re.IGNORECASE)
_SESSIONS: Final = frozenset(
    {"phpsessid", "jsessionid", "sessionid", "session_id", "cfid", "cftoken", "oscsid", "zenid"}
)
_PERHAPS_SESSIONS: Final = frozenset({"sid", "s", "session", "token"})
_LONG_RANDOM: Final = re.compile(r"[0-9a-fA-F-]{16,}")
_TRACKING: Final = frozenset({"gclid", "fbclid", "msclkid", "mc_cid", "mc_eid"})
_INDEXES: Final = ("index.html", "index.htm", "index.php", "default.aspx")
_TRACKING_PREFIX: Final = "utm_"


def canonical_url(address: str, *, base: str | None = None) -> str | None:
    """Return the canonical form of an address; None if it is none of a web page.

    Scheme and host are in lower case, the usual port, the fragment, session ids and what counts visitors are left out.
    The order of parameters stays, because it may matter.

    Args:
        address: an address, or a part of one such as `../prices`, if `base` is given.
        base: page that names it.
    """
    plain = address.strip().translate(_IGNORED_IN_ADDRESSES)
    if len(plain) > MAX_ADDRESS_CHARACTERS or "\\" in plain:
        return None
    try:
        url = httpx.URL(plain) if base is None else httpx.URL(base).join(plain)
    except (httpx.InvalidURL, ValueError):
        return None
    netloc = url.netloc.decode("ascii").removesuffix(_USUAL_PORTS.get(url.scheme, ""))
    if url.scheme not in _USUAL_PORTS or not netloc or url.userinfo or "%" in netloc:
        return None
    path, _, query = url.raw_path.decode("ascii").partition("?")
    parameters = "&".join(part for part in query.split("&") if part and not _is_noise(part))
    canonical = f"{url.scheme}://{netloc}{_SESSION_IN_PATH.sub('', _plain_escapes(path)) or '/'}"
    if parameters:
        canonical += f"?{_plain_escapes(parameters)}"
    return canonical if len(canonical) <= MAX_ADDRESS_CHARACTERS else None


def other_spellings(url: str) -> tuple[str, ...]:
    """Return the addresses under which many servers show the same page as under a canonical one."""
    address, mark, query = url.partition("?")
    folder, _, name = address.rpartition("/")
    plain = address.rstrip("/")
    if name == "":
        others = [plain, *(f"{address}{index}" for index in _INDEXES)]
    elif name.lower() in _INDEXES:
        others = [f"{folder}/", folder]
    else:
        others = [f"{address}/"]
    scheme_and_host = "/".join(address.split("/")[:3])
    others.append(scheme_and_host + address[len(scheme_and_host) :].lower())
    return tuple(f"{each}{mark}{query}" for each in others if each not in (address, scheme_and_host))


def _is_noise(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    name = name.lower()
    if name in _SESSIONS or name in _TRACKING or name.startswith(_TRACKING_PREFIX):
        return True
    return name in _PERHAPS_SESSIONS and _LONG_RANDOM.fullmatch(value) is not None


def _plain_escapes(text: str) -> str:
    """Write letters that need no escape as themselves, and the other escapes in capitals."""

    def plain(escape: re.Match[str]) -> str:
        byte = unquote_to_bytes(escape[0])
        return byte.decode("ascii") if byte[0] in _UNRESERVED else escape[0].upper()

    return _ESCAPE.sub(plain, text)
