"""Refuses texts that contain credentials."""

from typing import Final

from kb_shared.errors import RequestError
from kb_shared.observability.metrics import CONTENT_REFUSED
from kb_shared.text.sensitive_content import SensitiveContent, find_sensitive

SENSITIVE: Final = "sensitive-content"


def refuse_sensitive(text: str, *, field: str) -> None:
    """Check a text of a request.

    Args:
        field: name of the field in the request, for its sender. It must not come from the request.

    Raises:
        RequestError: 422 `sensitive-content` with `pattern`, `line` and `field`, never with the credential.
    """
    if found := check_content(text):
        raise RequestError(
            422,
            SENSITIVE,
            f"Remove the credential ({found.pattern}) from line {found.line} of `{field}` and resend. "
            "Credentials belong into a vault.",
            extra={"pattern": str(found.pattern), "line": found.line, "field": field},
        )


def check_content(text: str) -> SensitiveContent | None:
    """Return the first credential in `text`, which the caller has to refuse, and count it."""
    found = find_sensitive(text)
    if found is not None:
        CONTENT_REFUSED.labels(found.pattern).inc()
    return found
