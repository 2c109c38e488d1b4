"""Limits of what one file may cost."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """Limits for each file. A file beyond one of them is a `FileProblem`; the others are read all the same."""

    memory_bytes: int = 2 * 2**30
    """Address space of the parser process."""
    cpu_s: float = 60
    wall_s: float = 120
    ocr_s: float = 1_800
    """Takes the place of `cpu_s` and `wall_s` when scans are recognized."""
    file_bytes: int = 200_000_000
    unpacked_bytes: int = 500_000_000
    """Size of what a Word, PowerPoint or Excel file contains, which is compressed."""
    text_bytes: int = 20_000_000
    """Size of the text in UTF-8; the largest that kb-api accepts by default."""
    pages: int = 20_000
    """Number of pages that a document can have."""
