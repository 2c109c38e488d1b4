"""Reads mails: the headers that a reader wants, and the text. Attachments are named and not read."""

from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Final

from kb_client.files.extraction import Extraction, ExtractOptions, UnreadableDocument
from kb_client.files.formats.encodings import decode_text
from kb_client.files.formats.literal_lines import keep_literal
from kb_client.files.formats.web_page import extract_markup

_SHOWN: Final = ("From", "To", "Cc", "Date", "Subject")
_MAX_PARTS: Final = 1_000


def extract(data: bytes, _options: ExtractOptions) -> Extraction:
    """Return headers and text of a mail; its subject is the title."""
    message = message_from_bytes(data, policy=policy.default)
    headers = [(name, _header(message, name)) for name in _SHOWN]
    shown = [f"{name}: {value}" for name, value in headers if value]
    body, warnings = _body(message)
    if not shown and not body.strip():
        raise UnreadableDocument("it is not a mail", "check what kind of file it is")
    return Extraction(
        "\n".join(shown) + "\n\n" + body.strip(),
        title=_header(message, "Subject") or None,
        date=_date(message),
        warnings=warnings + _attachments(message),
    )


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message[name] or "").split())
    except (ValueError, IndexError, AttributeError, TypeError):
        # The parser of the standard library stumbles over some malformed headers.
        return ""


def _date(message: EmailMessage) -> datetime | None:
    try:
        date = message["Date"].datetime
    except (ValueError, IndexError, AttributeError, TypeError):
        return None
    if not isinstance(date, datetime):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _body(message: EmailMessage) -> tuple[str, tuple[str, ...]]:
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return "", ()
    payload = part.get_payload(decode=True)
    if not isinstance(payload, bytes):
        return "", ()
    text, warnings = decode_text(payload, declared=part.get_content_charset())
    if part.get_content_type() == "text/html":
        return extract_markup(text).text, warnings
    return keep_literal(text), warnings


def _attachments(message: EmailMessage) -> tuple[str, ...]:
    count = sum(1 for part, _ in zip(message.iter_attachments(), range(_MAX_PARTS), strict=False))
    return (f"{count} attachments were not read; save and push them as files",) if count else ()
