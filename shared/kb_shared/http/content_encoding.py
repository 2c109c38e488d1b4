"""Refuses compressed bodies, as RFC 9110 says, before anything reads them.

All limits of bodies count bytes as they are sent, and a body has at most a few megabytes. Kafka compresses.
"""

from typing import Final

from starlette.datastructures import Headers

_NONE: Final = frozenset({"", "identity", "utf-8", "utf8"})
"""Names of no coding. Some clients put the charset here, and send the body as it is."""
REFUSAL: Final = (
    "Send the body as it is: compressed ones are not read. Remove the header `Content-Encoding`, or turn off the"
    " compression of requests in your HTTP client."
)


def has_coded_body(headers: Headers) -> bool:
    """Return whether a request has a body that had to be decoded before it is read."""
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    codings = ",".join(headers.getlist("content-encoding")).split(",")
    return has_body and any(coding.strip().lower() not in _NONE for coding in codings)
