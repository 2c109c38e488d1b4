"""Reads CSV files."""

import csv
import io
import math
import re
from collections import Counter
from typing import Final

from kb_client.files.extraction import Extraction, ExtractOptions, UnreadableDocument
from kb_client.files.formats.tables.rows import rows_to_lines
from kb_client.files.formats.text.encodings import decode_text

_DELIMITERS: Final = ";\t|,"
"""The comma comes last: it stands in numbers and sentences, too."""
_STATED: Final = re.compile(r'\A\s*"?sep=(.)"?[^\S\n]*\n', re.IGNORECASE)
"""First line by which Excel knows the delimiter."""
_SAMPLE_LINES: Final = 200
_TWO_FIELDS: Final = 2
_MAX_FIELD_CHARACTERS: Final = 1_000_000


def extract(data: bytes, _options: ExtractOptions) -> Extraction:
    """Return a line for each row."""
    text, warnings = decode_text(data)
    stated = _STATED.match(text)
    if stated:
        text = text[stated.end() :]
    csv.field_size_limit(_MAX_FIELD_CHARACTERS)
    try:
        delimiter = stated[1] if stated else _find_delimiter(text)
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
        return Extraction("\n".join(rows_to_lines(rows)), warnings=warnings)
    except csv.Error:
        raise UnreadableDocument(
            f"a field has more than {_MAX_FIELD_CHARACTERS} characters", "check that each quotation mark is closed"
        ) from None


def _find_delimiter(text: str) -> str:
    """Return the delimiter that cuts most of the first lines into the same number of fields, and into many."""

    def regularity(delimiter: str) -> float:
        """Count rows of one length. Those with a field more or less, such as an empty last one, are half as good."""
        rows = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
        counts = Counter(len(row) for row in rows if any(row))
        return max(
            (rows + (counts[fields - 1] * (fields > _TWO_FIELDS) + counts[fields + 1]) / 2) * math.sqrt(fields - 1)
            for fields, rows in [*counts.items(), (1, 0)]
        )

    lines = [line for line in text.split("\n", _SAMPLE_LINES)[:_SAMPLE_LINES] if line.strip()]
    return max(_DELIMITERS, key=regularity)
