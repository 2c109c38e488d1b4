"""Looks for credentials in a text that is to be refused if it has one."""

from kb_shared.observability.metrics import CONTENT_REFUSED
from kb_shared.text.sensitive_content import SensitiveContent, find_sensitive


def check_content(text: str) -> SensitiveContent | None:
    """Return the first credential in `text`, which the caller has to refuse, and count it."""
    found = find_sensitive(text)
    if found is not None:
        CONTENT_REFUSED.labels(found.pattern).inc()
    return found
