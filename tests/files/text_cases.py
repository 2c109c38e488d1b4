"""Plain texts, Markdown and CSV files, as editors and spreadsheets save them."""

from typing import Final

from tests.files.case import Case

GERMAN: Final = (
    "Die Werkstatt öffnet täglich um acht Uhr. Für größere Aufträge müssen Kunden vorher anrufen; "
    "die Rückgabe geprüfter Geräte dauert höchstens zwei Wochen. Übergrößen kosten fünf Euro mehr."
)
RUSSIAN: Final = (
    "Музей открыт ежедневно с десяти утра до шести вечера. Билеты можно купить в кассе или заказать по телефону. "
    "Дети до семи лет проходят бесплатно, а студенты платят половину цены."
)
POLISH: Final = (
    "Wypożyczalnia łodzi jest czynna od maja do września. Każdy gość musi okazać ważny dokument, "
    "a zwrot sprzętu następuje najpóźniej o godzinie osiemnastej. Żeglarze płacą zniżkową stawkę."
)
JAPANESE: Final = (
    "図書館は毎日午前九時に開きます。本は二週間まで借りることができます。延長するときは受付で申し込んでください。"
)
CHINESE: Final = "图书馆每天上午九点开门。读者最多可以借阅五本书，期限为三十天。如需续借，请到服务台办理手续。"
KOREAN: Final = (
    "도서관은 매일 오전 아홉 시에 문을 엽니다. 책은 두 주 동안 빌릴 수 있습니다. 연장하려면 안내 데스크에 신청하십시오."
)
GREEK: Final = (
    "Το μουσείο ανοίγει κάθε μέρα στις εννέα το πρωί. Τα εισιτήρια πωλούνται στην είσοδο και τα παιδιά μπαίνουν δωρεάν."
)
FRENCH: Final = (
    "L’atelier est fermé à Noël : les dépôts s’élèvent à 40 € et sont remboursés après contrôle du matériel prêté."
)
GUESSED: Final = "its encoding is not UTF-8"


def _text(name: str, data: bytes | str, *shows: str, hides: tuple[str, ...] = (), warns: str | None = None) -> Case:
    return Case(name, ".txt", data.encode() if isinstance(data, str) else data, shows, hides, warns)


def _markdown(name: str, text: str, *shows: str, hides: tuple[str, ...] = (), title: str | None = None) -> Case:
    return Case(name, ".md", text.encode(), shows, hides, title=title)


def _table(
    name: str,
    data: bytes | str,
    *shows: str,
    hides: tuple[str, ...] = (),
    warns: str | None = None,
    suffix: str = ".csv",
) -> Case:
    return Case(name, suffix, data.encode() if isinstance(data, str) else data, shows, hides, warns)


TEXTS: Final = [
    _text("UTF-8 is read as it is", "Crème brûlée costs 6 €.", "Crème brûlée costs 6 €."),
    _text(
        "a mark of Notepad is no letter",
        b"\xef\xbb\xbfBoiler pressure: 2.4 bar",
        "Boiler pressure: 2.4 bar",
        hides=("\ufeff",),
    ),
    _text("UTF-16 of Notepad is read", "Zähler 77 läuft.".encode("utf-16"), "Zähler 77 läuft."),
    _text("UTF-16 with the big byte first is read", b"\xfe\xff" + "Pumpe läuft.".encode("utf-16-be"), "Pumpe läuft."),
    _text(
        "UTF-16 without a mark is read", "The gate opens at dawn. ".encode("utf-16-le") * 4, "The gate opens at dawn."
    ),
    _text("lines of Windows end once", "first\r\nsecond\r\n", "first\nsecond"),
    _text("lines of old Macs end", b"first line\rsecond line\r", "first line second line"),
    _text("German of Windows is guessed", GERMAN.encode("cp1252"), "Für größere Aufträge", warns=GUESSED),
    _text(
        "French quotation marks and euros of Windows are guessed",
        FRENCH.encode("cp1252"),
        "s’élèvent à 40 €",
        warns=GUESSED,
    ),
    _text("Russian of Windows is guessed", RUSSIAN.encode("cp1251"), "Дети до семи лет", warns=GUESSED),
    _text("Russian of Unix is guessed", RUSSIAN.encode("koi8-r"), "Билеты можно купить", warns=GUESSED),
    _text("Russian of DOS is guessed", RUSSIAN.encode("cp866"), "Музей открыт", warns=GUESSED),
    _text("Polish of Windows is guessed", POLISH.encode("cp1250"), "Każdy gość musi okazać", warns=GUESSED),
    _text("Polish of Unix is guessed", POLISH.encode("iso-8859-2"), "Żeglarze płacą", warns=GUESSED),
    _text("Japanese of Windows is guessed", JAPANESE.encode("cp932"), "二週間まで借りる", warns=GUESSED),
    _text("Japanese of Unix is guessed", JAPANESE.encode("euc-jp"), "受付で申し込んで", warns=GUESSED),
    _text("Chinese is guessed", CHINESE.encode("gb18030"), "期限为三十天", warns=GUESSED),
    _text("Korean is guessed", KOREAN.encode("cp949"), "두 주 동안", warns=GUESSED),
    _text("Greek is guessed", GREEK.encode("cp1253"), "τα παιδιά μπαίνουν", warns=GUESSED),
    _text("a NUL is no letter", "Shelf\0 12", "12", hides=("\0",)),
    _text("an empty file is refused", "  \n\n ", warns="no text"),
]

MARKDOWN: Final = [
    _markdown(
        "the title of the front matter names it",
        "---\ntitle: Night shift\n---\n\nThe bell rings at ten.\n",
        "The bell rings at ten.",
        title="Night shift",
    ),
    _markdown(
        "the first heading names it",
        "Some words.\n\n# Rota of May\n\nTwo people.",
        "Rota of May",
        "Two people.",
        title="Rota of May",
    ),
    _markdown(
        "a heading with a line below it names it",
        "Locker rules\n============\n\nOne key each.",
        "One key each.",
        title="Locker rules",
    ),
    _markdown(
        "a comment of a shell is no title",
        "```sh\n# install it\nmake\n```\n\n# Real title\n",
        "make",
        title="Real title",
    ),
    _markdown("tables are kept", "| Bolt | Torque |\n|---|---|\n| M9 | 31 Nm |\n", "Bolt", "Torque", "M9", "31 Nm"),
    _markdown("code is kept", "Run:\n\n    gear --up 3\n", "gear --up 3"),
    _markdown("links show their words", "See [the rota](http://rota.example).", "See", "the rota"),
    _markdown("a rule is no front matter", "---\n\nA line between rules.\n\n---\n", "A line between rules."),
    _markdown("a box is checked or not", "- [x] filled\n- [ ] sealed\n", "[x] filled", "[ ] sealed"),
    _markdown("front matter of Windows is read", "---\r\ntitle: Gate B\r\n---\r\nOpen.\r\n", "Open.", title="Gate B"),
]

TABLES: Final = [
    _table(
        "names stand above numbers",
        "Plant,Height,Water\nFern,40,daily\nCactus,15,monthly\n",
        "Plant: Fern",
        "Height: 40",
        "Plant: Cactus",
        "Water: monthly",
    ),
    _table(
        "semicolons part cells, commas numbers",
        "Size;Weight\nS;1,5\nM;2,25\n",
        "Size: S",
        "Weight: 1,5",
        "Weight: 2,25",
    ),
    _table("tabs part cells", "Name\tRoom\nIda\t12\nOtto\t14\n", "Name: Ida", "Room: 12", suffix=".tsv"),
    _table("bars part cells", "Bay|Load kg\nA1|250\nA2|310\n", "Bay", "Load kg", "A1", "250", "A2", "310"),
    _table(
        "Excel names its delimiter",
        "sep=;\nOil;Grade\nGear;80\nBrake;4\n",
        "Oil",
        "Grade",
        "Gear",
        "80",
        "Brake",
        "4",
        hides=("sep=",),
    ),
    _table(
        "a cell has lines and commas", 'Part,Note\n7,"wash, then\ndry"\n8,ok\n', "Part: 7", "wash, then dry", "Part: 8"
    ),
    _table("quotation marks are doubled", 'Term,Length\n"3.5"" disk",9\nTape,8\n', 'Term: 3.5" disk', "Length: 9"),
    _table(
        "a list of people has no names of columns",
        "Mia Koch,Sales,Hall 2\nTom Fuchs,Store,Hall 3\nEva Lang,Lab,Hall 5\n",
        "Mia Koch",
        "Sales",
        "Tom Fuchs",
        hides=("Mia Koch:", "Sales: Store"),
    ),
    _table(
        "labels stand beside values",
        "Vendor,Holm & Co\nContract,K-88\nContact,Jan Holm\n",
        "Vendor: Holm & Co",
        "Contract: K-88",
        hides=("Vendor: Contract", "Holm & Co: K-88"),
    ),
    _table(
        "years are names", "Branch,2021,2022\nNorth,310,325\nSouth,280,295\n", "2021: 310", "2022: 325", "2022: 295"
    ),
    _table("months are names", "Meter,Jan 2025,Feb 2025\nGas,44,41\nWater,12,13\n", "Jan 2025: 44", "Feb 2025: 13"),
    _table("sizes are names", "Shoe,39,40,41\nPull,3,0,5\nRand,1,2,8\n", "39: 3", "41: 8"),
    _table(
        "equal names are kept",
        "Bus,From,To,From,To\n7,05:10,05:40,17:10,17:40\n8,06:00,06:25,18:00,18:25\n",
        "From: 05:10",
        "To: 05:40",
        "From: 17:10",
        "To: 17:40",
        hides=("05:10: 06:00",),
    ),
    _table(
        "a title stands above the names",
        "Stock of week 12\n\nItem,Boxes\nNails,14\nGlue,3\n",
        "Stock of week 12",
        "Item",
        "Boxes",
        "Nails",
        "14",
        "Glue",
        "3",
        hides=("Stock of week 12: Item",),
    ),
    _table(
        "two tables have names each",
        "Cat,Age\nMo,3\nLu,5\n\nDog,Weight\nRex,22\nBo,9\n",
        "Cat: Mo",
        "Age: 5",
        "Dog: Rex",
        "Weight: 9",
        hides=("Cat: Rex",),
    ),
    _table(
        "empty cells are left out",
        "Room,Heater,Note\n1,on,\n2,,cold\n",
        "Room: 1",
        "Heater: on",
        "Room: 2",
        "Note: cold",
    ),
    _table("leading zeros stay", "Code,Count\n0071,4\n0125,6\n", "Code: 0071", "Code: 0125"),
    _table("a short row is kept", "Key,Owner,Floor\n1,Ann,2\n2,Bea\n3,Cis,1\n", "Owner: Bea", "Floor: 1"),
    _table(
        "umlauts of Windows are guessed",
        ("Ort;Größe\n" + "".join(f"Straße {n};{n}0 m²\n" for n in range(1, 30))).encode("cp1252"),
        "Ort: Straße 1",
        "Größe: 10 m²",
        warns=GUESSED,
    ),
    _table(
        "UTF-16 of Excel is read",
        "Stadt\tEinwohner\nJülich\t33000\nKöln\t1080000\n".encode("utf-16"),
        "Stadt",
        "Einwohner",
        "Jülich",
        "33000",
        "Köln",
        "1080000",
    ),
    _table(
        "a mark of Excel is no part of a name",
        b"\xef\xbb\xbfTool,Price\nSaw,20\nAxe,31\n",
        "Tool: Saw",
        "Price: 31",
        hides=("\ufeff",),
    ),
    _table(
        "decimals beside commas do not move",
        'Lens,Focus,Price\n"A, wide","24,5",310\n"B, tele","90,0",450\n',
        "Lens: A, wide",
        "Focus: 24,5",
        "Price: 450",
    ),
    _table(
        "percentages stand below names", "Loan,Rate\nShort,4 %\nLong,6 %\n", "Loan: Short", "Rate: 4 %", "Rate: 6 %"
    ),
    _table(
        "dates stand below names", "Visit,Day\nRoof,2025-03-04\nCellar,2025-04-01\n", "Visit: Roof", "Day: 2025-04-01"
    ),
]

CASES: Final = [*TEXTS, *MARKDOWN, *TABLES]
