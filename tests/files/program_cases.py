"""Files that programs have written. `make_program_files.py` made them, and has their sources."""

from pathlib import Path
from typing import Final

from tests.files.case import Case, Expected

_FOLDER: Final = Path(__file__).parent / "programs"
_LETTER: Final = (
    "Boat club",
    "The season begins in April – bring your life jacket & shoes.",
    "1. Sign the list.",
    "2. Take the blue key.",
    "Boat",
    "Heron",
    "4",
    "Swift",
    "2",
)
_REGATTA: Final = ("Regatta of May", "Eleven boats", "Start at the mole")


def _made(
    name: str,
    file: str,
    *shows: Expected,
    hides: tuple[str, ...] = (),
    warns: str | None = None,
    title: str | None = None,
) -> Case:
    path = _FOLDER / file
    return Case(name, path.suffix, path.read_bytes(), shows, hides, warns, title)


CASES: Final = [
    _made("a letter of LibreOffice is read", "libreoffice-letter.docx", *_LETTER, ("10^8", "10⁸"), title="Boat club"),
    _made("a letter that LibreOffice printed is read", "libreoffice-letter.pdf", *_LETTER[1:], title="Boat club"),
    _made("a page that wkhtmltopdf printed is read", "wkhtmltopdf-letter.pdf", *_LETTER),
    _made("changes, notes and boxes of LibreOffice are read", "libreoffice-lease.docx", "Lease of the hut", "The hut costs fifty euros", "a night.", "Kim Dahl in May.", "Shut the door.", "Lock the gate.", hides=("forty",), title="Lease of the hut"),
    _made("the notes of LibreOffice are read", "libreoffice-lease.docx", "Wood is included."),
    _made("the boxes of LibreOffice are read", "libreoffice-lease.docx", "Key under the stone"),
    _made("notes that LibreOffice printed are read", "libreoffice-lease.pdf", "Lease of the hut", "Shut the door.", "Wood is included.", "Key under the stone"),
    _made("a page of LibreOffice is read", "libreoffice-lease.html", "Lease of the hut", "Lock the gate.", "Key under the stone", title="Lease of the hut"),
    _made("formats of LibreOffice are read", "libreoffice-fees.xlsx", "Pier", "18.5%", "00417", "2024-05-06", "Crane", "37.0%", "00093", hides=("Bribe",), warns="1 hidden row"),
    _made("a sheet that LibreOffice printed is read", "libreoffice-fees.pdf", "Fee Share Code Since", "Pier 18.5% 00417 2024-05-06", "Crane 37.0% 00093 2023-11-30", hides=("Bribe",)),
    _made("a CSV of LibreOffice is read", "libreoffice-fees.csv", "Fee: Pier", "Share: 18.5%", "Fee: Crane", "Since: 2023-11-30"),
    _made("a sheet that LibreOffice saved as a page is read", "libreoffice-fees.html", "Fee", "Share", "Pier", "18.5%", "00417", "Crane", "00093"),
    _made("slides of LibreOffice are read", "libreoffice-regatta.pptx", *_REGATTA),
    _made("slides that LibreOffice printed are read", "libreoffice-regatta.pdf", *_REGATTA),
    _made("slides that Ghostscript made smaller are read", "ghostscript-regatta.pdf", *_REGATTA),
    _made("a text that enscript printed is read", "enscript-log.pdf", "Log of the lighthouse", "Lamp lit at 18:40.", "visibility 200 m.", title="file.pdf"),
    _made("an article that Chromium printed is read", "chromium-article.pdf", "Reise im Winter Der Dampfer legt um sechs Uhr ab", "KAJÜTEN", "alle Vor- und Nachsaisontage bis 2026-03-31.", ("10^9 Liter", "10⁹ Liter"), "\u064a\u0641\u062a\u062d \u0627\u0644\u0645\u064a\u0646\u0627\u0621 \u0641\u064a \u0627\u0644\u0633\u0627\u0639\u0629", title="Reise"),
    _made("a manual that groff printed is read", "ghostscript-knot.pdf", "NAME", "tie a rope to a ring", "as wide as a hand; then the loop is closed."),
    _made("a manual with overstruck letters is read", "groff-knot.txt", "NAME", "knot - tie a rope to a ring", "SYNOPSIS", "knot [--loose] rope", "then the loop is closed.", hides=("\b",)),
]  # fmt: skip
