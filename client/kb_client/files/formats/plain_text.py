"""Reads text files."""

import re
from typing import Final

from kb_client.files.extraction import Extraction, ExtractOptions
from kb_client.files.formats.text.encodings import decode_text
from kb_client.files.formats.text.literal_lines import keep_literal

_OVERSTRUCK: Final = re.compile(r"[^\n]\x08")
"""Character that printers put below the next one, to make it bold or underlined."""


def extract(data: bytes, _options: ExtractOptions) -> Extraction:
    """Return the text; it has no headings, title or date of its own."""
    text, warnings = decode_text(data)
    return Extraction(keep_literal(_OVERSTRUCK.sub("", text)), warnings=warnings)
