# ruff: noqa: RUF001  # letters of other scripts are what this is about
"""Texts have their letters, whatever encoding they are in and whatever they say about it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_client.files.extraction import UnreadableDocument
from kb_client.files.formats.html.page import decode_markup
from kb_client.files.formats.text.encodings import decode_declared, decode_text

TEXTS = {
    "ru": "Велосипеды стоят в подвале восточного крыла. Ключ у вахтёра.",
    "uk": "Велосипеди стоять у підвалі східного крила. Ключ у чергового.",
    "pl": "Rowery stoją w piwnicy wschodniego skrzydła. Klucz ma dozorca, który mieszka obok.",
    "cs": "Kola stojí ve sklepě východního křídla. Klíč má správce, který bydlí vedle.",
    "hu": "A kerékpárok a keleti szárny pincéjében állnak. A kulcs a gondnoknál van, első emelet.",
    "el": "Τα ποδήλατα βρίσκονται στο υπόγειο της ανατολικής πτέρυγας.",
    "tr": "Bisikletler doğu kanadının bodrumunda durur. Anahtar kapıcıdadır, şifre değişti.",
    "he": "האופניים עומדים במרתף של האגף המזרחי. המפתח אצל השומר.",
    "ar": "الدراجات موجودة في قبو الجناح الشرقي والمفتاح عند الحارس.",
    "th": "จักรยานอยู่ในห้องใต้ดินของปีกตะวันออก กุญแจอยู่กับยาม",
    "zh": "自行车停放在东翼的地下室。钥匙在看门人那里。",
    "tw": "自行車停放在東翼的地下室。鑰匙在看門人那裡。",
    "ja": "自転車は東棟の地下にあります。鍵は管理人が持っています。",
    "ko": "자전거는 동쪽 건물 지하에 있습니다. 열쇠는 관리인에게 있습니다.",
    "de": "Die Fahrräder stehen im Keller des Ostflügels. Den Schlüssel hat der Hausmeister.",
    "fr": "Les vélos sont à la cave de l'aile est. La clé est chez le gardien, près de l'entrée.",
}


@pytest.mark.parametrize(
    ("language", "encoding"),
    [
        *[("ru", each) for each in ("cp1251", "koi8-r", "cp866", "iso8859-5", "mac-cyrillic", "utf-7")],
        *[("uk", each) for each in ("cp1251", "koi8-u")],
        *[(language, each) for language in ("pl", "cs", "hu") for each in ("cp1250", "iso8859-2")],
        *[("el", each) for each in ("cp1253", "iso8859-7")],
        *[("de", each) for each in ("cp1252", "cp850", "mac-roman")],
        *[("fr", each) for each in ("cp1252", "cp850", "mac-roman")],
        *[("ja", each) for each in ("cp932", "euc_jp", "iso2022_jp")],
        *[("tr", "cp1254"), ("he", "cp1255"), ("ar", "cp1256"), ("th", "cp874")],
        *[("zh", "gbk"), ("tw", "big5"), ("ko", "euc_kr")],
    ],
)
def test_a_text_that_does_not_say_its_encoding_is_read_by_its_letters(language: str, encoding: str) -> None:
    text, warnings = decode_text(TEXTS[language].encode(encoding))
    assert text == TEXTS[language]
    assert len(warnings) == 1
    assert "was taken to be" in warnings[0]


@pytest.mark.parametrize(
    "text",
    [
        *[
            "Preis: 12 €",
            "18 °C",
            "Größe",
            "naïve",
            "don\u2019t",
            "„heute“",
            "25 m² × 3",
            "½ Tag",
        ],
        *[
            "El Niño",
            "smørrebrød",
            "São Paulo",
            "à la carte",
            "§ 5 Abs. 2",
            "10 µm",
            "© Firma",
            "Müller;47\nKrämer;48\n",
        ],
    ],
)
def test_a_few_signs_and_accents_are_those_of_the_west(text: str) -> None:
    assert decode_text(text.encode("cp1252"))[0] == text


@pytest.mark.parametrize(
    ("label", "codec", "text"),
    [
        ("iso-8859-1", "cp1252", "12 € \u2013 „heute“"),
        ("latin1", "cp1252", "12 €"),
        ("ISO_8859-1:1987", "cp1252", "12 €"),
        ("gb2312", "gb18030", "镕基 5 €"),
        ("hz-gb-2312", "hz", "钥匙"),
        ("iso-2022-kr", "iso2022_kr", "열쇠"),
        ("x-gbk", "gb18030", "镕基"),
        ("shift_jis", "cp932", "①㈱"),
        ("x-sjis", "cp932", "①㈱"),
        ("windows-31j", "cp932", "①㈱"),
        ("euc-kr", "cp949", "펲시"),
        ("big5", "big5hkscs", "嘅"),
        ("x-cp1251", "cp1251", "Ключ"),
        ("x-mac-cyrillic", "mac-cyrillic", "Ключ"),
        ("koi8-r", "koi8-r", "Ключ"),
        ("cp437", "cp437", "Größe"),
        ("iso-2022-jp", "iso2022_jp", "鍵は管理人"),
        ("utf-7", "utf-7", "Größe"),
    ],
)
def test_names_of_encodings_mean_what_browsers_take_them_for(label: str, codec: str, text: str) -> None:
    written = f"price list {text} price list"
    assert decode_text(written.encode(codec), declared=label) == (written, ())
    assert decode_declared(written.encode(codec), label) == written


@pytest.mark.parametrize("label", ["utf-16", "iso-8859-1", "windows-1251", "gb2312", "shift_jis", "us-ascii", "base64"])
def test_a_name_that_cannot_be_true_is_ignored(label: str) -> None:
    text = "Größe 12 € \u2013 鍵は管理人が持っています"
    assert decode_text(text.encode(), declared=label) == (text, ())


def test_a_broken_letter_costs_only_itself() -> None:
    data = TEXTS["ru"].encode() + b"\xff " + TEXTS["ru"].encode()
    text, warnings = decode_text(data)
    assert text == f"{TEXTS['ru']}\ufffd {TEXTS['ru']}"
    assert warnings == ("1 characters can't be read as utf-8; save the text as UTF-8",)


@pytest.mark.parametrize(
    ("head", "codec"),
    [
        ("<meta charset='windows-1251'>", "cp1251"),
        ("<META HTTP-EQUIV=Content-Type CONTENT='text/html; charset=koi8-r'>", "koi8-r"),
        ("<?xml version='1.0' encoding='windows-1251'?>", "cp1251"),
        ("<!-- <meta charset=koi8-r> --><meta charset=windows-1251>", "cp1251"),
        ("<meta name=description content='charset=koi8-r'><meta charset=windows-1251>", "cp1251"),
        ("<meta charset=utf-16>", "utf-8"),
        ("<meta charset=koi8-r>", "utf-8"),
        ("", "utf-8"),
        ("", "utf-16"),
    ],
)
def test_a_page_is_read_by_what_it_says_unless_that_cannot_be_true(head: str, codec: str) -> None:
    page = f"{head}<p>{TEXTS['ru']}"
    assert decode_markup(page.encode(codec)) == (page, ())


def test_who_sends_a_page_knows_its_encoding_better_than_the_page() -> None:
    page = f"<meta charset=koi8-r><p>{TEXTS['ru']}"
    assert decode_markup(page.encode("cp1251"), named="windows-1251") == (page, ())


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff")))
def test_utf_8_is_never_taken_for_anything_else(text: str) -> None:
    assert decode_text(text.encode())[0] == text or "\x1b" in text or "+" in text


@given(
    st.binary(max_size=400), st.sampled_from([None, "utf-8", "gb2312", "shift_jis", "iso-8859-1", "utf-7", "hz", "zip"])
)
def test_any_bytes_are_a_text_or_refused(data: bytes, declared: str | None) -> None:
    try:
        text, _ = decode_text(data, declared=declared)
    except UnreadableDocument:
        return
    assert "\r" not in text
    assert "\0" not in text
