"""PDF files with forms, notes, scans and lines that no reader wants."""

from collections.abc import Sequence
from typing import Final

from tests.files.case import Case, Expected
from tests.unit.client.files.pdf_files import (
    FI,
    Line,
    assemble,
    make_annotated_pdf,
    make_pdf,
    make_pdf_in_font,
    make_picture_page,
    make_scan,
    make_turned_page,
    text_field,
)


def _pdf(
    name: str,
    data: bytes,
    *shows: Expected,
    hides: tuple[str, ...] = (),
    warns: str | None = None,
    title: str | None = None,
) -> Case:
    return Case(name, ".pdf", data, shows, hides, warns, title)


def _lines(*texts: str, top: int = 700, left: int = 72) -> list[Line]:
    return [(left, top - 20 * at, text) for at, text in enumerate(texts)]


def _turned(turn: int, *texts: str) -> list[tuple[int, Line]]:
    """Return lines below each other for a reader who turns the page, which stand beside each other on it."""
    step = 20 if turn == 90 else -20
    return [(turn, (300 + step * at, 400, text)) for at, text in enumerate(texts)]


def _words(left: int, bottom: int, words: Sequence[str]) -> list[Line]:
    """Return words of one line that is turned by 180 degrees, each with its place."""
    return [(left - 45 * at, bottom, word) for at, word in enumerate(words)]


def _pages(texts: Sequence[str], *, header: str = "", footer: str = "") -> bytes:
    return make_pdf(
        *(
            [(72, 760, header), *_lines(text, f"Line of part {at}"), (290, 30, footer.format(at))]
            for at, text in enumerate(texts, 1)
        )
    )


_PARTS: Final = (
    "Seeds are sown in May.",
    "Beds are watered at dusk.",
    "Frost ends in April.",
    "Straw keeps roots warm.",
)
_NOTE: Final = (
    b"<< /Type /Annot /Subtype /FreeText /Rect [100 500 300 530] /Contents (Checked by Nora) /DA (/F1 10 Tf) >>"
)
_COMMENT: Final = b"<< /Type /Annot /Subtype /Text /Rect [100 500 120 520] /Contents (Why so late?) >>"
_STAMP: Final = b"<< /Type /Annot /Subtype /Stamp /Rect [100 400 228 430] /AP << /N 2 0 R >> >>"
_CHECKED: Final = "/FT /Btn /AS /Yes"

CASES: Final = [
    _pdf(
        "lines are shown",
        make_pdf(_lines("Sow beans in rows.", "Keep 40 cm apart.")),
        "Sow beans in rows.",
        "Keep 40 cm apart.",
    ),
    _pdf("pages keep their order", make_pdf(_lines("Spring"), _lines("Summer")), "Spring", "Summer"),
    _pdf("ligatures are letters", make_pdf(_lines(f"The {FI}eld is {FI}ne.")), "The field is fine."),
    _pdf("letters of Windows are read", make_pdf(_lines("Beete für Äpfel \\226 3 \\200")), "Beete für Äpfel – 3 €"),
    _pdf("words are joined over lines", make_pdf(_lines("The green-", "house is warm.")), "The greenhouse is warm."),
    _pdf(
        "words are joined over pages",
        make_pdf(
            *(
                [*_lines(text), (280, 30, f"Page {at}")]
                for at, text in enumerate(("Cut the rasp-", "berries in May, and the black-", "thorn later."), 1)
            )
        ),
        "Cut the raspberries in May, and the blackthorn later.",
    ),
    _pdf(
        "the first of two words with one end keeps its hyphen",
        make_pdf(
            _lines(
                "Sort the fruit by Vor-",
                "und Nacherntezeit, and write an e-",
                "mail about the state-of-",
                "the-art press.",
            )
        ),
        "by Vor- und Nacherntezeit",
        "an e-mail about the state-of-the-art press.",
    ),
    _pdf(
        "hyphens that a font calls soft are shown",
        make_pdf_in_font(_lines("From 2025-03-09 by e-mail: cu-", "cumbers."), letters={"-": "\u00ad"}),
        "From 2025-03-09 by e-mail: cucumbers.",
    ),
    _pdf(
        "headers appear once",
        _pages(_PARTS, header="Garden manual"),
        "Garden manual",
        "Seeds are sown",
        "Straw keeps",
        hides=("at dusk. Line of part 2 Garden manual",),
    ),
    _pdf(
        "numbers of pages are left out",
        _pages(_PARTS, footer="Page {}"),
        "Seeds are sown",
        "Frost ends",
        hides=("Page 3",),
    ),
    _pdf(
        "columns are kept apart",
        make_pdf([*_lines("Left one", "Left two"), *_lines("Right one", "Right two", left=330)]),
        "Left one",
        "Left two",
        "Right one",
        "Right two",
    ),
    _pdf(
        "form values are shown with their labels",
        make_annotated_pdf([(72, 700, "Gardener:")], text_field((150, 695, 300, 715), "Uma Reed")),
        "Gardener",
        "Uma Reed",
    ),
    _pdf(
        "several form values stand at their labels",
        make_annotated_pdf(
            [(72, 700, "Plot:"), (72, 660, "Size:")],
            text_field((150, 695, 300, 715), "G-4"),
            text_field((150, 655, 300, 675), "90 sqm"),
        ),
        "Plot",
        "G-4",
        "Size",
        "90 sqm",
    ),
    _pdf(
        "notes on the page are shown",
        make_annotated_pdf([(72, 700, "Inspection")], _NOTE, form=False),
        "Inspection",
        "Checked by Nora",
    ),
    _pdf(
        "stamps are shown",
        make_annotated_pdf([(72, 700, "Lease of plot 9")], _STAMP, drawn="SIGNED 2 MAY", form=False),
        "Lease of plot 9",
        "SIGNED 2 MAY",
    ),
    _pdf(
        "comments are said to be left out",
        make_annotated_pdf([(72, 700, "Plan")], _COMMENT, form=False),
        "Plan",
        hides=("Why so late",),
        warns="1 comments were left out",
    ),
    _pdf("a scan is refused with a remedy", make_scan(bytes(100 * 100), width=100, height=100), warns="--ocr"),
    _pdf("a scan with a stamp is a scan", make_picture_page([(72, 20, "Scan 0047")], share=0.95), warns="--ocr"),
    _pdf(
        "text under a scan is shown",
        make_picture_page(
            _lines(
                "Plot 5 belongs to the school.", "The hut is shared by all.", "Keys hang in the shed beside the door."
            ),
            share=0.95,
            invisible=True,
        ),
        "Plot 5 belongs to the school.",
        "The hut is shared",
    ),
    _pdf(
        "a text with a small picture is a text",
        make_picture_page(_lines("The pond is two metres deep.", "Fish are fed at noon."), share=0.2),
        "The pond is two metres deep.",
    ),
    _pdf(
        "a page in landscape keeps its lines",
        make_turned_page(*_turned(90, "Crop of June", "Beans 40 kg", "Leeks 12 kg"), rotation=90),
        "Crop of June Beans 40 kg Leeks 12 kg",
    ),
    _pdf(
        "a table on its side keeps its lines",
        make_turned_page(
            (0, (72, 760, "Garden book")),
            *_turned(270, "Crop of July", "Plums 31 kg", "Pears 25 kg"),
            (0, (290, 30, "Page 12")),
        ),
        "Crop of July Plums 31 kg Pears 25 kg",
    ),
    _pdf(
        "a page that was scanned upside down keeps its words",
        make_turned_page(*((180, line) for line in _words(540, 90, ("Hoes", "and", "rakes", "are", "lent")))),
        "Hoes and rakes are lent",
    ),
    _pdf(
        "names of columns on their side are parted",
        make_turned_page(
            (90, (205, 600, "Compost")),
            (90, (265, 600, "Shed")),
            (90, (325, 600, "Water tap")),
            *((0, line) for line in [(72, 580, "Plot of the brook"), (200, 580, "yes"), (260, 580, "no")]),
            *((0, line) for line in [(72, 560, "Plot of the pine"), (200, 560, "no"), (260, 560, "yes")]),
        ),
        "Compost Shed Water tap",
        "Plot of the brook yes no",
    ),
    _pdf(
        "its title names it",
        make_pdf(_lines("Rake weekly."), info={"Title": "Lawn care"}),
        "Rake weekly.",
        title="Lawn care",
    ),
    _pdf(
        "a title of Word is none",
        make_pdf(_lines("Rake weekly."), info={"Title": "Microsoft Word - lawn.doc"}),
        "Rake weekly.",
        title="file.pdf",
    ),
    _pdf("an empty page is refused", assemble([b""]), warns="blank"),
    _pdf("a file that is none is refused", b"%PDF-1.4 broken", warns="PDF"),
]
