"""Reads CSV files."""

import csv
import io
from typing import Final

from kb_client.files.extraction import Extraction, ExtractOptions, UnreadableDocument
from kb_client.files.formats.encodings import decode_text
from kb_client.files.formats.rows import rows_to_lines

_DELIMITERS: Final = ",;\t|"
_SAMPLE_LINES: Final = 20
_MAX_FIELD_CHARACTERS: Final = 1_000_000


def extract(data: bytes, _options: ExtractOptions) -> Extraction:
    """Return a line for each row."""
    text, warnings = decode_text(data)
    csv.field_size_limit(_MAX_FIELD_CHARACTERS)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=_find_delimiter(text))
    try:
        return Extraction("\n".join(rows_to_lines(rows)), warnings=warnings)
    except csv.Error:
        raise UnreadableDocument(
            f"a field has more than {_MAX_FIELD_CHARACTERS} characters", "check that each quotation mark is closed"
        ) from None


def _find_delimiter(text: str) -> str:
    """Return the delimiter that cuts the first lines into the same number of fields, and into most."""

    def regularity(delimiter: str) -> tuple[int, int]:
        """Count the lines that have as many fields as the first one, and its fields."""
        rows = [row for row, _ in zip(csv.reader(lines, delimiter=delimiter), range(_SAMPLE_LINES), strict=False)]
        fields = len(rows[0]) if rows else 0
        return (sum(len(row) == fields for row in rows) if fields > 1 else 0), fields

    lines = text.lstrip("\n").split("\n", _SAMPLE_LINES)[:_SAMPLE_LINES]
    return max(_DELIMITERS, key=regularity)
