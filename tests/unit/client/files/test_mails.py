"""The text of a mail is what a mail program shows when the mail is opened; what it only names is counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_client.files.extraction import Extraction, ExtractOptions
from kb_client.files.formats.html.page import extract as extract_page
from kb_client.files.formats.mail.calendar_event import describe_events
from kb_client.files.formats.mail.headers import read_words
from kb_client.files.formats.mail.message import extract
from kb_client.files.limits import ParseLimits

HEAD = "From: Ada <ada@example.org>\nSubject: Lift\nMIME-Version: 1.0\n"


def read(mail: str | bytes) -> Extraction:
    return extract(mail.encode() if isinstance(mail, str) else mail, ExtractOptions(ParseLimits()))


def multipart(kind: str, *parts: str, boundary: str = "b1") -> str:
    body = "".join(f"--{boundary}\n{part}\n" for part in parts)
    return f'Content-Type: multipart/{kind}; boundary="{boundary}"\n\n{body}--{boundary}--\n'


def part(text: str, *headers: str, kind: str = "text/plain") -> str:
    return "\n".join([f"Content-Type: {kind}", *headers]) + f"\n\n{text}"


PLAIN = part("The lift stops on floor two.")
HTML = part("<p>The lift stops on <b>floor two</b>.", kind="text/html")
ATTACHMENT = part("JVBERi0=", "Content-Disposition: attachment; filename=plan.pdf", kind="application/pdf")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (multipart("mixed", PLAIN, part("It is repaired on Monday.")), ["floor two", "repaired on Monday"]),
        (
            multipart("mixed", PLAIN, part("<p>Repaired on Monday.", kind="text/html")),
            ["floor two", "Repaired on Monday"],
        ),
        (multipart("alternative", part("  "), HTML), ["**floor two**"]),
        (
            multipart(
                "alternative", part("This mail has HTML only."), part(f"<p>{'up and down ' * 9}", kind="text/html")
            ),
            ["up and down"],
        ),
        (multipart("alternative", part("Your program can't show HTML mails."), HTML), ["**floor two**"]),
        (multipart("related", HTML, part("R0lGODlh", "Content-ID: <x>", kind="image/gif")), ["**floor two**"]),
        (
            multipart(
                "mixed",
                multipart("alternative", PLAIN, multipart("related", HTML, boundary="b3"), boundary="b2"),
                ATTACHMENT,
            ),
            ["floor two"],
        ),
        (part("The lift stops.", "Content-Disposition: attachment; filename=body.txt"), ["The lift stops."]),
        (multipart("mixed", part("The lift stops.", "Content-Disposition: attachment")), ["The lift stops."]),
        (part("The lift stops.", "Content-Disposition: inline; filename=a.txt"), ["The lift stops."]),
        (
            multipart(
                "mixed",
                PLAIN,
                "Content-Type: message/rfc822\n\nFrom: Bo <bo@example.org>\nSubject: Keys\n\nThe keys are with Bo.",
            ),
            ["floor two", "From: Bo", "Subject: Keys", "The keys are with Bo."],
        ),
        (
            "Content-Type: message/rfc822\nContent-Disposition: attachment\n\nSubject: Keys\n\nWith Bo.",
            ["Subject: Keys", "With Bo."],
        ),
        (
            part(
                "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Test of the lift\nDTSTART;TZID=Europe/Oslo:20260302T090000\n"
                "DTEND:20260302T100000Z\nLOCATION:Hall 3\\, north\nDESCRIPTION:Bring the\n  key.\nEND:VEVENT",
                kind="text/calendar",
            ),
            [
                "What: Test of the lift",
                "Begin: 2026-03-02 09:00 (Europe/Oslo)",
                "End: 2026-03-02 10:00 UTC",
                "Hall 3, north",
                "Bring the key.",
            ],
        ),
        (
            multipart(
                "alternative",
                PLAIN,
                part("BEGIN:VEVENT\nSUMMARY:Test\nDTSTART;VALUE=DATE:20260302\nEND:VEVENT", kind="text/calendar"),
            ),
            ["floor two", "What: Test", "Begin: 2026-03-02"],
        ),
        (
            multipart(
                "report", PLAIN, "Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx\n\nAction: failed\n"
            ),
            ["floor two", "Action: failed"],
        ),
        (multipart("signed", PLAIN, part("xx", kind="application/pgp-signature")), ["floor two"]),
        (multipart("digest", "Content-Type: message/rfc822\n\nSubject: One\n\nFirst."), ["Subject: One", "First."]),
        (
            part("The lift \nstops on \nfloor two.\n", kind="text/plain; format=flowed"),
            ["The lift stops on floor two."],
        ),
        ("Content-Type: text/markdown\n\n*floor two*", ["*floor two*"]),
        ("Content-Type: nonsense\n\nfloor two", ["floor two"]),
        ("Content-Type: multipart/mixed\n\nfloor two without a boundary", ["floor two without a boundary"]),
    ],
)
def test_each_part_that_a_mail_program_shows_is_in_the_text(body: str, shown: list[str]) -> None:
    mail = read(HEAD + body)
    assert [each for each in shown if each not in mail.text] == []
    assert "floor two.\n\nThe lift stops on **floor two**" not in mail.text


def test_the_better_of_two_alternatives_is_shown_once() -> None:
    mail = read(HEAD + multipart("alternative", PLAIN, HTML))
    assert mail.text == "From: Ada <ada@example.org>\nSubject: Lift\n\nThe lift stops on floor two."
    assert mail.warnings == ()


def test_attachments_are_named_and_counted() -> None:
    note = part("Call the firm.", "Content-Disposition: attachment; filename*=utf-8''n%C3%B6te.txt")
    mail = read(HEAD + multipart("mixed", PLAIN, ATTACHMENT, note))
    assert mail.text.splitlines()[:3] == [
        "From: Ada <ada@example.org>",
        "Attachments: plan.pdf, nöte.txt",
        "Subject: Lift",
    ]
    assert mail.warnings == ("2 attachments were not read; save and push them as files",)


def test_a_mail_whose_text_is_encrypted_says_so() -> None:
    mail = read(HEAD + part("MIIB", kind="application/pkcs7-mime; smime-type=enveloped-data"))
    assert mail.warnings == ("its text is encrypted and was not read; save it decrypted",)


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("=?utf-8?Q?Gr=C3=B6=C3=9Fe?=", "Größe"),
        ("=?utf-8?B?R3LD?= =?utf-8?B?tsOfZQ==?=", "Größe"),
        ("=?iso-8859-1?Q?=80_40_=96_net?=", "€ 40 \u2013 net"),
        ("=?gb2312?B?6Es=?=", "鐺"),
        ("=?shift_jis?B?h0A=?=", "①"),
        ("Re: =?utf-8?q?a?= b =?utf-8?q?c?=", "Re: a b c"),
        ("=?utf-8?B?broken!?=", "n"),
        ("=?nonsense?Q?plain?=", "plain"),
        ("a\n b", "a b"),
    ],
)
def test_words_of_headers_are_decoded_as_browsers_know_encodings(header: str, text: str) -> None:
    assert text in read_words(header)


def test_bytes_beyond_ascii_in_a_header_are_letters() -> None:
    for charset in ("utf-8", "iso-8859-1"):
        mail = read("Subject: Größe\n".encode(charset) + f"Content-Type: text/plain; charset={charset}\n\nx".encode())
        assert mail.title == "Größe"


def test_the_letters_of_a_part_are_those_of_its_encoding() -> None:
    for charset, text in (("gb2312", "负责仓库的镕"), ("iso-8859-1", "nur 12 € \u2013 „heute“"), ("us-ascii", "Größe")):
        codec = {"gb2312": "gbk", "iso-8859-1": "cp1252"}.get(charset, "utf-8")
        head = f"Subject: x\nContent-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: 8bit\n\n"
        assert read(head.encode() + text.encode(codec)).text == f"Subject: x\n\n{text}"


@given(st.text(max_size=200))
def test_no_text_in_place_of_a_calendar_ends_the_reader(text: str) -> None:
    describe_events(text)


@given(st.binary(max_size=300))
def test_no_bytes_after_the_headers_end_the_reader(body: bytes) -> None:
    assert read(b"Subject: x\n" + body).text.startswith("Subject: x")


@pytest.mark.parametrize(
    "sheet",
    [
        ".x{display:none}",
        "#y { color: red; visibility : hidden }",
        "p.x{display:none!important}",
        ".a, .b .c, .x, #z {display:none}",
        "@charset 'utf-8'; .x{display:none}",
        "/* } */ <!-- .x{display:none} -->",
        "@media screen { .a{color:red} .x{display:none} }",
        "@media print{.x{display:block}} .x{display:none}",
        ".x{display:block} .x{display:none}",
        ".x{display:none!important} #y{display:block}",
        "#y{display:none} p.x{display:block}",
        "@media (max-width:9em){.x{display:block!important}}.x{display:none}",
    ],
)
def test_what_a_rule_hides_is_not_in_the_text(sheet: str) -> None:
    assert _read_with_sheet(sheet) == "The lock is oiled."


@pytest.mark.parametrize(
    "sheet",
    [
        ".xx{display:none} x{display:none} p{display:none} div.x{display:none}",
        "@media print{.x{display:none}}",
        "@media screen and (max-width:480px){.x{display:none!important}}",
        "@supports (display:grid){.x{display:none}}",
        ".x:hover{display:none} a .x{display:none} [class=x]{display:none}",
        ".x{display:none} .x{display:inline}",
        "#y{display:block} .x{display:none}",
        "/* .x{display:none}",
        ".x{-mso-display:none; list-display:none}",
    ],
)
def test_what_no_rule_hides_is_in_the_text(sheet: str) -> None:
    assert _read_with_sheet(sheet) == "The lock is oiled.\n\nTeaser of the lock"


def test_what_an_element_says_of_itself_counts_more_than_a_rule() -> None:
    own = "style='display:block'"
    assert "Teaser" in _read_with_sheet(".x{display:none}", own)
    assert "Teaser" not in _read_with_sheet(".x{display:none !important}", own)
    assert "Teaser" not in _read_with_sheet(".x{display:block}", "style='display:none'")


def test_a_rule_of_a_web_page_may_hide_what_a_click_opens() -> None:
    page = b"<style>.x{display:none}</style><p>The lock is oiled.<p class=x>Oil weekly."
    assert "Oil weekly." in extract_page(page, ExtractOptions(ParseLimits())).text


@given(st.text(alphabet="{};:.#x@/* \n", max_size=40))
def test_no_style_sheet_ends_the_reader(sheet: str) -> None:
    assert _read_with_sheet(sheet + "</style>").startswith("The lock is oiled.")


def _read_with_sheet(sheet: str, own: str = "") -> str:
    body = f"<style>{sheet}</style><p>The lock is oiled.</p><p id=y class='w x' {own}>Teaser of the lock</p>"
    return read(part(body, kind="text/html")).text.strip()
