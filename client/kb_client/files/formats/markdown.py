"""Reads Markdown. The text stays as it is; title and date come from front matter or the first heading."""

import re
from datetime import UTC, datetime
from typing import Final

from kb_client.files.extraction import Extraction, ExtractOptions
from kb_client.files.formats.text.encodings import decode_text
from kb_client.files.titles import own_title

_FRONT_MATTER: Final = re.compile(r"\A(---|\+\+\+)[ \t]*\n(.{0,10000}?)\n\1[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD: Final = re.compile(r"""^(title|date)[ \t]*[:=][ \t]*(["']?)(.+?)\2[ \t]*$""", re.MULTILINE | re.IGNORECASE)
_FENCE: Final = re.compile(r"^ {0,3}(```|~~~)")
_HEADING: Final = re.compile(r"^ {0,3}#{1,2}[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE: Final = re.compile(r"^ {0,3}(=+|-+)[ \t]*$")
_LINES_SEARCHED: Final = 200


def extract(data: bytes, _options: ExtractOptions) -> Extraction:
    """Return the text with the title and the date that it gives itself."""
    text, warnings = decode_text(data)
    front = _FRONT_MATTER.match(text)
    fields = {key.lower(): value for key, _, value in _FIELD.findall(front[2])} if front else {}
    body = text[front.end() :] if front else text
    return Extraction(
        text,
        title=own_title(fields.get("title") or first_heading(body)),
        date=parse_date(fields.get("date")),
        warnings=warnings,
    )


def first_heading(text: str) -> str | None:
    """Return the first heading of the two highest levels, in either notation."""
    in_code, before = False, ""
    for line in text.split("\n", _LINES_SEARCHED)[:_LINES_SEARCHED]:
        if _FENCE.match(line):
            in_code = not in_code
        elif in_code:
            continue
        elif found := _HEADING.match(line):
            return _plain(found[1])
        elif before.strip() and _UNDERLINE.match(line):
            return _plain(before)
        before = line
    return None


def parse_date(value: str | None) -> datetime | None:
    """Read a date or a time of ISO 8601; without a time zone it is taken as UTC."""
    try:
        date = datetime.fromisoformat((value or "").strip())
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _plain(heading: str) -> str:
    """Remove emphasis, code marks and the targets of links."""
    return re.sub(r"[*`]", "", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)).strip()
