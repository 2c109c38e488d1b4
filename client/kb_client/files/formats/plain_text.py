"""Reads text files."""

from kb_client.files.extraction import Extraction, ExtractOptions
from kb_client.files.formats.encodings import decode_text


def extract(data: bytes, _options: ExtractOptions) -> Extraction:
    """Return the text as it is; it has no title or date of its own."""
    text, warnings = decode_text(data)
    return Extraction(text, warnings=warnings)
