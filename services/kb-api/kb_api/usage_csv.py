"""Writes usage as CSV (RFC 4180) that a spreadsheet opens without carrying anything out. Pure."""

import csv
import io
from collections.abc import Collection
from typing import Final

from kb_contracts.api.usage import Usage, UsageRow
from kb_shared.mongo.spu_ledger import Dimension

_NANO_DIGITS: Final = 9
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")
"""Beginnings of a cell that spreadsheets take for a formula or a command."""


def usage_csv(usage: Usage, *, by: Collection[Dimension]) -> str:
    """Return one line for each group, below a line with the names of the columns. `usd` is exact."""
    dimensions = [column for name in by for column in (("kb_id", "kb_name") if name == "kb" else (name,))]
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\r\n")
    writer.writerow([*dimensions, "spus", "usd"])
    writer.writerows([*(_text(row, name) for name in dimensions), row.spus, _usd(row.nano_usd)] for row in usage.usage)
    return written.getvalue()


def _text(row: UsageRow, name: str) -> str:
    value = getattr(row, name)
    text = "" if value is None else str(value)
    # Spreadsheets show such a cell as text, without the quote.
    return f"'{text}" if text.lstrip().startswith(_FORMULA_STARTS) else text


def _usd(nano_usd: int) -> str:
    whole, fraction = divmod(nano_usd, 10**_NANO_DIGITS)
    return f"{whole}.{fraction:0{_NANO_DIGITS}d}"
