"""Limits of what one file may cost."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """Limits for each file. A file beyond one of them is a `FileProblem`; the others are read all the same.

    Bytes and counts decide which files are read, the same ones on each machine. The largest file within them takes up
    to a minute of CPU. The times are brakes for files that would never end: a machine that is five times slower needs
    a sixth of them.
    """

    memory_bytes: int = 2 * 2**30
    """Address space of the parser process."""
    cpu_s: float = 1_800
    """CPU time of the parser process; when scans are recognized, for all texts and again for each picture of a page."""
    wall_s: float = 7_200
    """Time on the clock, without the recognition of scans."""
    ocr_page_s: float = 900
    """Time in which a page is recognized, which usually takes a few seconds."""
    file_bytes: int = 200_000_000
    unpacked_bytes: int = 500_000_000
    """Size of what a Word, PowerPoint or Excel file contains, which is compressed."""
    text_bytes: int = 20_000_000
    """Size of the text in UTF-8; the largest that kb-api accepts by default."""
    pages: int = 20_000
    """Number of pages that a document can have."""
    cells: int = 5_000_000
    """Number of cells that the sheets of an Excel file can have, with the empty ones between others in a row."""
