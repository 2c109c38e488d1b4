"""What a reader sees on a page of a PDF is its text, also if annotations draw it, and what can't be read is said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_client.files.extraction import Extraction, ExtractOptions, UnreadableDocument
from kb_client.files.formats.pdf import document
from kb_client.files.formats.pdf.document import extract
from kb_client.files.formats.pdf.readable_letters import is_readable, reads_as_words
from kb_client.files.limits import ParseLimits
from tests.unit.client.files.pdf_files import (
    Line,
    assemble,
    make_annotated_pdf,
    make_pdf,
    make_pdf_in_font,
    make_picture_page,
    make_turned_page,
    text_field,
)

SWITCH = "<< /Type /Annot /Subtype /Widget /FT /Btn /T ({}) /Rect [{} {} {} {}] /V /{} /AS /{} >>"
LABELS: list[Line] = [
    (72, 700, "Name of the guest:"),
    (72, 660, "Room"),
    (300, 660, "Nights"),
    (72, 600, "Remarks"),
    (100, 500, "Breakfast"),
    (300, 500, "Dinner"),
]


def read(data: bytes) -> Extraction:
    return extract(data, ExtractOptions(ParseLimits()))


def test_values_of_a_form_stand_beside_their_labels() -> None:
    parsed = read(
        make_annotated_pdf(
            LABELS,
            text_field((350, 655, 420, 672), "3"),
            text_field((120, 655, 250, 672), "214"),
            text_field((200, 695, 400, 712), "Olga Brandt"),
            text_field((72, 560, 400, 595), "Late\\nafter ten"),
            text_field((72, 300, 400, 320), "secret", "/Ff 8192"),
            text_field((72, 340, 400, 360), "B-RD 91", "/TU (Number of the car)"),
            text_field((72, 380, 400, 395), "unseen", "/F 2"),
            SWITCH.format("b", 80, 498, 92, 510, "Yes", "Yes").encode(),
            SWITCH.format("d", 280, 498, 292, 510, "Off", "Off").encode(),
            text_field((72, 400, 300, 420), "b", "/FT /Ch /Ff 131072 /Opt [[(a) (Bern)] [(b) (Basel)]] /TU (City)"),
        )
    )
    assert parsed.text.splitlines()[-8:] == [
        "Name of the guest: Olga Brandt",
        "Room: 214",
        "Nights: 3",
        "Remarks: Late",
        "after ten",
        "[x] Breakfast",
        "City: Basel",
        "Number of the car: B-RD 91",
    ]
    assert not {"secret", "unseen"} & set(parsed.text.split())


def test_notes_typed_on_a_page_and_stamps_are_seen_and_comments_are_counted() -> None:
    parsed = read(
        make_annotated_pdf(
            [(72, 700, "Invoice 12")],
            b"<< /Type /Annot /Subtype /FreeText /Rect [72 200 300 220] /Contents (Paid in cash) /DA (/F1 10 Tf) >>",
            b"<< /Type /Annot /Subtype /FreeText /F 2 /Rect [72 200 300 220] /Contents (Unseen) >>",
            b"<< /Type /Annot /Subtype /Stamp /Rect [72 300 200 330] /AP << /N 2 0 R >> >>",
            b"<< /Type /Annot /Subtype /Text /Rect [72 100 90 120] /Contents (why so much?) >>",
            b"<< /Type /Annot /Subtype /Link /Rect [72 100 90 120] /Contents (a link) >>",
            drawn="APPROVED",
        )
    )
    assert parsed.text.splitlines() == ["Invoice 12", "APPROVED", "Paid in cash"]
    assert parsed.warnings == ("1 comments were left out",)


def test_an_annotation_without_a_form_is_seen() -> None:
    note = b"<< /Type /Annot /Subtype /Stamp /Rect [72 300 200 330] /AP << /N 2 0 R >> >>"
    assert read(make_annotated_pdf([], note, drawn="APPROVED", form=False)).text == "APPROVED"


@pytest.mark.parametrize(
    ("lines", "share", "is_picture"),
    [
        ([(40, 20, "Scanned by Copyfix 3000")], 1.0, True),
        ([(40, 20, "- 4 -")], 0.6, True),
        ([(40, 20, "Figure 3: the pump")], 0.3, False),
        ([(40, 700 - 14 * at, "A whole sentence that somebody has written here.") for at in range(9)], 1.0, False),
    ],
)
def test_a_page_that_is_mostly_a_picture_is_said_to_be_one(
    lines: list[Line], share: float, *, is_picture: bool
) -> None:
    parsed = read(make_picture_page(lines, share=share))
    assert parsed.warnings == (("1 of 1 pages are pictures without text; --ocr reads them",) if is_picture else ())
    assert lines[0][2] in parsed.text


def test_a_scan_whose_text_was_recognized_before_is_no_picture() -> None:
    parsed = read(make_picture_page([(40, 20, "Short note")], share=1.0, invisible=True))
    assert (parsed.text, parsed.warnings) == ("Short note", ())


def test_characters_that_are_no_letters_are_left_out_and_said() -> None:
    noise = r"\003\004\005\006\007\010\016\017\020\021\022\023\024\025"
    page = b"BT /F1 12 Tf 1 0 0 1 72 700 Tm (%s) Tj ET"
    with pytest.raises(UnreadableDocument, match="its fonts don't say which letters they show"):
        read(assemble([page % noise.encode()]))
    parsed = read(assemble([page % noise.encode(), page % b"The second page is text."]))
    assert parsed.text == "The second page is text."
    assert parsed.warnings == (
        "1 of 2 pages were left out, because their fonts don't say which letters they show; --ocr reads them",
    )


def test_the_codes_of_tex_are_letters_although_its_fonts_do_not_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "_knows_letters", lambda _: False)
    text = b"The sta\x1b of the harbour \x1cnds each ship by its \x1dag, and not by its number."
    parsed = read(assemble([b"BT /F1 12 Tf 1 0 0 1 72 700 Tm (%s) Tj ET" % text]))
    assert parsed.text == "The staff of the harbour finds each ship by its flag, and not by its number."
    with pytest.raises(UnreadableDocument, match="fonts"):
        read(assemble([b"BT /F1 12 Tf 1 0 0 1 72 700 Tm (Uif tubgg pg uif ibscpvs gjoet fbdi tijq) Tj ET"]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The tide tables of the harbour are printed in October.", True),
        ("Rozkład rejsów promów obowiązuje od pierwszego maja.", True),
        ("Der Fahrplan der Fähren gilt vom ersten Mai an.", True),
        ("Lauttojen aikataulu on voimassa toukokuusta alkaen.", True),
        ("Uif ujef ubcmft pg uif ibscpvs bsf qsjoufe jo Pdupcfs.", False),
        ("WKH WLGH WDEOHV RI WKH KDUERXU DUH SULQWHG LQ RFWREHU", False),
        ("12 14 18", False),
    ],
)
def test_letters_are_those_of_a_text_if_they_are_as_frequent(text: str, *, words: bool) -> None:
    assert reads_as_words(text) == words


SHIFTED = "".join(chr(ord(letter) - 29) for letter in "Thereisalwaysalightinthewindowofthehouseattheend" * 3)


@pytest.mark.parametrize(
    ("text", "readable"),
    [
        ("\ue001\ue002\ue003\ue004\ue005\ue006\ue007\ue008\ue009\ue00a", False),
        ("\ufffd" * 20, False),
        ("\x03\x04\x05 " * 9, False),
        (SHIFTED, False),
        ("PARTS LIST HVBK-1234 QXRT-9 KLMN-77 " * 9, True),
        ("THE WHOLE PAGE IS WRITTEN IN CAPITAL LETTERS. " * 5, True),
        ("Сумма 12 € — оплачено", True),
        ("入口は東側です", True),
        ("12.5 13.7 ....... 18 %", True),
        ("hyphen\x02ated re\ufffecord", True),
        ("", True),
    ],
)
def test_letters_are_told_from_noise(text: str, *, readable: bool) -> None:
    assert is_readable(text) == readable


@given(st.text(st.characters(categories=["Ll", "Lu", "Lo", "Nd", "Po"]), max_size=300))
def test_a_text_with_small_letters_of_any_script_is_readable(text: str) -> None:
    assert is_readable(text + "abcdefghij" * 40)


def test_a_form_that_only_programs_of_adobe_show_is_refused() -> None:
    with pytest.raises(UnreadableDocument, match="XFA"):
        read(make_annotated_pdf([(72, 700, "Please wait...")], text_field((1, 1, 9, 9), ""), xfa=True))


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ("12 0 (1.5 x 10) 7 5 (6)", "1.5 x 10^6"),
        ("12 0 (1.5 x 10) 7 5 (-19) 12 0 ( joule)", "1.5 x 10^-19 joule"),
        ("12 0 (40 m) 7 5 (2) 12 0 ( of floor)", "40 m² of floor"),
        ("12 0 (CO) 8 -3 (2) 12 0 ( in air)", "CO₂ in air"),
        ("12 0 (for 7.5) 6 4 (3) 12 0 ( years)", "for 7.5^3 years"),
        ("12 0 (on the 1) 7 5 (st) 12 0 ( of May)", "on the 1st of May"),
        ("12 0 (A) 8 0 (4) 12 0 ( paper)", "A4 paper"),
        ("12 0 (B) 12 4 (7)", "B7"),
        ("12 0 (net 40) 7 5 ( 2)", "net 40 2"),
    ],
)
def test_raised_and_lowered_numbers_are_told_from_digits(pieces: str, text: str) -> None:
    words = pieces.replace("(", "|(").split("|")
    sizes = [words[0], *(word.rpartition(")")[2] for word in words[1:-1])]
    shown = [word.rpartition(")")[0] + ")" for word in words[1:]]
    content = "BT 1 0 0 1 72 700 Tm "
    for size, word in zip(sizes, shown, strict=True):
        points, rise = size.split()
        content += f"/F1 {points} Tf {rise} Ts {word} Tj "
    assert read(assemble([f"{content} ET".encode()])).text == text


def test_layers_that_are_hidden_are_left_out_and_counted() -> None:
    line = "/OC /{} BDC BT /F1 12 Tf 1 0 0 1 72 {} Tm ({}) Tj ET EMC "
    contents = "BT /F1 12 Tf 1 0 0 1 72 700 Tm (On each plan) Tj ET "
    contents += line.format("walls", 660, "North wall") + line.format("notes", 620, "Ask the owner")
    contents += line.format("scan", 580, "Recognized").replace("BT", "BT 3 Tr")
    parsed = read(assemble([contents.encode()], layers={"walls": True, "notes": False, "scan": True}))
    assert parsed.text == "On each plan\nNorth wall\nRecognized"
    assert parsed.warnings == ("1 hidden layers were left out; show them and save it again to have them",)


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize(
    ("turn", "across", "down"),
    [(0, (1, 0), (0, -1)), (90, (0, 1), (1, 0)), (180, (-1, 0), (0, 1)), (270, (0, -1), (-1, 0))],
)
def test_lines_of_a_turned_page_keep_their_order_and_their_words(
    turn: int, across: tuple[int, int], down: tuple[int, int], rotation: int
) -> None:
    words = [("The", 0, 0), ("ferry", 30, 0), ("sails", 66, 0), ("at", 0, 16), ("noon", 18, 16), ("again", 0, 32)]
    places: list[Line] = [
        (300 + across[0] * along + down[0] * below, 400 + across[1] * along + down[1] * below, word)
        for word, along, below in words
    ]
    # Words that are far from the page are not seen, however it is turned.
    unseen = [(turn, (x + 2_000 * side, y, "unseen")) for side in (-1, 1) for x, y, _ in places[:1]]
    data = make_turned_page(*((turn, place) for place in places), *unseen, rotation=rotation)
    assert read(data).text == "The ferry sails\nat noon\nagain"


def test_letters_with_gaps_between_them_are_a_word_unless_they_are_far_apart() -> None:
    heading: list[Line] = [(72 + 14 * at, 700, letter) for at, letter in enumerate("HOMES")]
    columns: list[Line] = [(72 + 60 * at, 660, letter) for at, letter in enumerate("ABCDE")]
    assert read(make_pdf([*heading, *columns, (72, 620, "P L U S 4")])).text == "HOMES\nA B C D E\nP L U S 4"


@pytest.mark.parametrize(
    ("first", "others", "text"),
    [
        ((72, 650), ["104 676 (wans rest)", "104 662 (on the pond.)"], "Swans rest\non the pond."),
        (
            (72, 650),
            ["72 740 (Birds)", "104 676 (wans rest)", "104 662 (on the pond.)"],
            "Birds\nSwans rest\non the pond.",
        ),
        ((72, 650), ["104 676 (Rest)", "104 662 (on the pond.)"], "S\nRest\non the pond."),
        ((72, 650), ["204 676 (wans rest)"], "S\nwans rest"),
        ((72, 650), ["72 630 (wans rest)"], "S\nwans rest"),
    ],
)
def test_a_large_initial_belongs_to_the_line_beside_it(first: tuple[int, int], others: list[str], text: str) -> None:
    content = f"BT /F1 46 Tf 1 0 0 1 {first[0]} {first[1]} Tm (S) Tj /F1 12 Tf "
    content += " ".join(f"1 0 0 1 {place} Tm ({line} Tj" for place, line in (each.split(" (") for each in others))
    assert read(assemble([f"{content} ET".encode()])).text == text


def test_numbers_after_a_large_initial_are_still_raised() -> None:
    content = (
        "BT /F1 46 Tf 1 0 0 1 72 650 Tm (A) Tj /F1 12 Tf 1 0 0 1 104 676 Tm (nna lent 10) Tj /F1 8 Tf 5 Ts (6) Tj ET"
    )
    assert read(assemble([content.encode()])).text == "Anna lent 10^6"


@pytest.mark.parametrize(("glyph", "shown"), [("\0", ""), ("\U0001f33e", "\U0001f33e")])
def test_glyphs_without_a_letter_or_beyond_others_hide_no_place(glyph: str, shown: str) -> None:
    line = "It ~holds 10) Tj /F1 8 Tf 5 Ts (6) Tj /F1 12 Tf 0 Ts ( litres"
    assert (
        read(make_pdf_in_font([(72, 700, line)], letters={"~": glyph})).text.strip() == f"It {shown}holds 10^6 litres"
    )


def test_letters_of_one_arabic_glyph_are_in_the_order_in_which_they_are_read() -> None:
    lam_alef = "\u0644\u0627"
    data = make_pdf_in_font([(72, 700, "cba"), (72, 660, "b")], letters={"a": "\u0633", "b": lam_alef, "c": "\u0645"})
    assert read(data).text == f"\u0633{lam_alef}\u0645\n{lam_alef}"
