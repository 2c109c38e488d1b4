"""Tells of what type an answer is, also if the server does not say, or says what it is not. Pure."""

import re
from typing import Final

_SAYS_NOTHING: Final = frozenset(
    {"", "application/octet-stream", "binary/octet-stream", "application/unknown", "unknown/unknown", "*/*", "text"}
)
"""Types that servers name for files of which they know nothing."""
_OF_MARKUP: Final = frozenset({"text/plain", "application/xml", "text/xml"})
"""Types that pages are sent with by mistake."""
_HTML: Final = re.compile(
    rb"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--.{0,400}?-->\s*)*<(?:!doctype\s+html|html|head|body|title|meta|main|article)[\s/>]",
    re.IGNORECASE | re.DOTALL,
)
_MARKS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_BINARY: Final = (
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x89PNG\r\n", "image/png"),
    (b"GIF8", "image/gif"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\xd0\xcf\x11\xe0", "application/msword"),
)
_BEHIND_TYPE: Final = re.compile("[;,]")
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def media_type_of(content_type: str, beginning: bytes) -> str:
    """Return the media type of an answer, in lower case and without parameters.

    Args:
        content_type: what the server names.
        beginning: of the contents; some hundred bytes.
    """
    named = _BEHIND_TYPE.split(content_type)[0].strip().lower()
    if "/" not in named and named not in _SAYS_NOTHING:
        named = ""
    for mark, media_type in _BINARY:
        if beginning.startswith(mark):
            return media_type
    if named not in _SAYS_NOTHING | _OF_MARKUP:
        return named
    if _HTML.match(beginning.removeprefix(_MARKS[0])):
        return "text/html"
    if named in _OF_MARKUP:
        return named
    is_text = beginning.startswith(_MARKS) or not _CONTROLS.search(beginning)
    return "text/plain" if is_text and beginning else "application/octet-stream"
