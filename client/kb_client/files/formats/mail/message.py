"""Reads mails as a mail program shows them: the headers that a reader wants, and the text. Attachments are named."""

import re
from collections import Counter
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import Message
from typing import Final

from kb_client.files.extraction import Extraction, ExtractOptions, UnreadableDocument
from kb_client.files.formats.html.page import decode_markup, extract_markup
from kb_client.files.formats.mail.calendar_event import describe_events
from kb_client.files.formats.mail.headers import read_date, read_header, read_words
from kb_client.files.formats.text.encodings import decode_text
from kb_client.files.formats.text.literal_lines import keep_literal
from kb_client.files.titles import own_title

_SHOWN: Final = ("From", "To", "Cc", "Date", "Subject")
_SHOWN_TEXTS: Final = ("text/plain", "text/html")
_ATTACHED_TEXTS: Final = frozenset({"text/csv", "text/vcard", "text/x-vcard", "text/rtf", "text/directory"})
_SIGNATURES: Final = frozenset(
    {
        "application/pgp-signature",
        "application/pkcs7-signature",
        "application/x-pkcs7-signature",
        "application/pgp-keys",
    }
)
_ENCRYPTED: Final = frozenset({"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"})
_MAX_DEPTH: Final = 40
_SAYS_LESS: Final = 0.6
"""Share of the words of the HTML below which a plain text does not say the same, but that the mail has HTML."""
_WORD: Final = re.compile(r"\w+")
_SIGNATURE: Final = "-- "
"""Line before a signature, which ends in a space and flows into no other."""


def extract(data: bytes, _options: ExtractOptions) -> Extraction:
    """Return headers and text of a mail; its subject is the title.

    Raises:
        UnreadableDocument: it has neither.
    """
    message = message_from_bytes(data.removeprefix(b"\xef\xbb\xbf").lstrip(), policy=policy.compat32)
    parts = _read_parts(message, depth=0)
    headers = _headers(message, parts.attachments)
    text = parts.text
    if not headers and not text:
        raise UnreadableDocument("it is not a mail", "check what kind of file it is")
    return Extraction(
        "\n".join(headers) + "\n\n" + text,
        title=own_title(read_header(message, "Subject", charset=_charset(message))),
        date=read_date(message),
        warnings=(*dict.fromkeys(parts.warnings), *_explain(parts)),
    )


@dataclass(slots=True)
class _ShownParts:
    """Texts and attachments of a part of a mail and of the parts in it."""

    shown: list[str] = field(default_factory=list)
    attached_texts: list[Message] = field(default_factory=list)
    """Texts that are called attachments, which are the text of the mail if there is no other."""
    attachments: list[str] = field(default_factory=list)
    """Names of those that are not read; of some the name is empty."""
    warnings: list[str] = field(default_factory=list)
    encrypted: bool = False

    @property
    def text(self) -> str:
        return "\n\n".join(self.shown)

    def add(self, other: "_ShownParts") -> None:
        self.shown += other.shown
        self.attached_texts += other.attached_texts
        self.attachments += other.attachments
        self.warnings += other.warnings
        self.encrypted = self.encrypted or other.encrypted

    def show(self, text: str) -> None:
        if text.strip():
            self.shown.append(text.strip())


def _headers(message: Message, attachments: list[str]) -> list[str]:
    charset = _charset(message)
    headers = [f"{name}: {value}" for name in _SHOWN if (value := read_header(message, name, charset=charset))]
    names = [name for name in attachments if name]
    if names:
        headers.insert(
            -1 if headers and headers[-1].startswith("Subject:") else len(headers), f"Attachments: {', '.join(names)}"
        )
    return headers


def _read_parts(message: Message, *, depth: int) -> _ShownParts:
    """Return what a whole mail shows."""
    parts = _read_part(message, depth=depth)
    if parts.shown:
        parts.attachments += [_filename(part) for part in parts.attached_texts]
    else:
        for part in parts.attached_texts:
            _show_text(part, parts)
    parts.attached_texts = []
    return parts


def _read_part(part: Message, *, depth: int) -> _ShownParts:
    parts = _ShownParts()
    kind = part.get_content_type()
    inner = part.get_payload() if part.is_multipart() else None
    if kind in _ENCRYPTED:
        parts.encrypted = True
    elif isinstance(inner, list) and depth < _MAX_DEPTH:
        _read_inner([each for each in inner if isinstance(each, Message)], part, parts=parts, depth=depth + 1)
    elif _is_attached(part, kind):
        if kind in _SHOWN_TEXTS:
            parts.attached_texts.append(part)
        elif kind not in _SIGNATURES and not (kind.startswith("image/") and part["Content-ID"]):
            parts.attachments.append(_filename(part))
    else:
        _show_text(part, parts)
    return parts


def _read_inner(inner: list[Message], part: Message, *, parts: _ShownParts, depth: int) -> None:
    kind = part.get_content_type()
    if kind == "multipart/alternative":
        _read_alternatives(inner, parts=parts, depth=depth)
    elif part.get_content_maintype() == "multipart":
        for each in inner:
            parts.add(_read_part(each, depth=depth))
    elif kind in ("message/rfc822", "message/global"):
        for each in inner:
            forwarded = _read_parts(each, depth=depth)
            forwarded.shown = ["\n".join(_headers(each, forwarded.attachments)), *forwarded.shown]
            parts.add(forwarded)
    else:
        # Reports on a delivery are headers alone.
        parts.show("\n\n".join("\n".join(f"{name}: {read_words(str(v))}" for name, v in e.raw_items()) for e in inner))


def _read_alternatives(inner: list[Message], *, parts: _ShownParts, depth: int) -> None:
    """Add the alternative that says most: the plain text, unless it is empty or only says that there is another one."""
    read = [(each.get_content_type(), _read_part(each, depth=depth)) for each in inner]
    invitations = [each for kind, each in read if kind == "text/calendar"]
    texts = [(kind, each) for kind, each in read if each.shown and kind != "text/calendar"]
    for _, each in read:
        if each not in invitations and not any(each is text for _, text in texts):
            parts.add(each)
    if texts:
        richest = texts[-1][1]
        plain = next((each for kind, each in texts if kind == "text/plain"), richest)
        chosen = plain if _says_as_much(plain, richest) else richest
        parts.shown += chosen.shown
        parts.warnings += chosen.warnings
        for _, each in texts:
            parts.attachments += each.attachments
            parts.attached_texts += each.attached_texts
    for each in invitations:
        parts.add(each)


def _says_as_much(plain: _ShownParts, richest: _ShownParts) -> bool:
    words = Counter(_WORD.findall(richest.text.casefold()))
    return (words & Counter(_WORD.findall(plain.text.casefold()))).total() >= _SAYS_LESS * words.total()


def _is_attached(part: Message, kind: str) -> bool:
    if part.get_content_maintype() not in ("text", "message", "multipart"):
        return True
    return part.get_content_disposition() == "attachment" or kind in _ATTACHED_TEXTS


def _filename(part: Message) -> str:
    return read_words(str(part.get_filename() or ""))


def _charset(part: Message) -> str | None:
    try:
        return part.get_content_charset()
    except (LookupError, UnicodeError):
        return None


def _show_text(part: Message, parts: _ShownParts) -> None:
    payload = part.get_payload(decode=True)
    if not isinstance(payload, bytes) or not payload.strip():
        return
    kind = part.get_content_type()
    try:
        if kind == "text/html":
            markup, warnings = decode_markup(payload, named=_charset(part))
            extraction = extract_markup(markup, of_mail=True)
            parts.show(extraction.text)
            parts.warnings += (*warnings, *extraction.warnings)
            return
        text, warnings = decode_text(payload, declared=_charset(part))
    except UnreadableDocument:
        parts.attachments.append(_filename(part))
        return
    parts.warnings += warnings
    parts.show(describe_events(text) if kind == "text/calendar" else keep_literal(_unfold(text, part)))


def _unfold(text: str, part: Message) -> str:
    """Join the lines that a program has wrapped, if it says so (RFC 3676); those of a quotation with each other."""
    if str(part.get_param("format", "")).lower() != "flowed":
        return text
    without_space = str(part.get_param("delsp", "")).lower() == "yes"
    lines: list[tuple[str, list[str]]] = []
    flows = False
    for written in text.split("\n"):
        rest = written.lstrip(">")
        quoted, line = written[: len(written) - len(rest)], rest.removeprefix(" ")
        if not flows or lines[-1][0] != quoted or line == _SIGNATURE:
            lines.append((quoted, []))
        flows = line.endswith(" ") and line != _SIGNATURE
        lines[-1][1].append(line[:-1] if flows and without_space else line)
    joined = ((quoted, "".join(parts)) for quoted, parts in lines)
    return "\n".join(f"{quoted} {line}" if quoted else line for quoted, line in joined)


def _explain(parts: _ShownParts) -> list[str]:
    count = len(parts.attachments)
    said = [f"{count} attachments were not read; save and push them as files"] if count else []
    return [*said, *(["its text is encrypted and was not read; save it decrypted"] if parts.encrypted else [])]
