import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kb_client.files.extraction import WebLinks
from kb_knowledge.sources.parse_item import ItemParser, ItemUnreadable, SaveFile

PAGE = """\
<html><head><title>Travel</title><meta name="ROBOTS" content="noarchive, nofollow"><base href="/docs/">
<link rel="canonical" href="/docs/travel"></head>
<body><header>Site</header><nav><a href="first">First</a></nav><h1>Hotels</h1><p>A night costs 140 euros.</p>
<a href="second#part">Second</a> <a href="#part">Here</a> <a href="third" rel="nofollow">Third</a>
<aside>Related</aside><footer>Imprint</footer></body></html>"""


@pytest.fixture(scope="module")
def parser() -> Iterator[ItemParser]:
    """One process for all tests, because it takes half a second to start."""
    with ItemParser() as parser:
        yield parser


async def test_a_page_gives_its_text_and_where_it_leads(parser: ItemParser) -> None:
    parsed = await parser.parse_page(PAGE.encode(), media_type="text/html", charset=None, name="page")
    assert (parsed.document_name, parsed.text) == (
        "Travel",
        "# Hotels\n\nA night costs 140 euros.\n\nSecond Here Third",
    )
    assert parsed.web_links == WebLinks(
        links=("first", "second#part"), base="/docs/", canonical="/docs/travel", index=True, follow=False
    )


@pytest.mark.parametrize(
    ("body", "charset"),
    [
        ("Grüße".encode("iso-8859-1"), "ISO-8859-1"),
        ("Grüße".encode("utf-16"), "utf-16"),
        ("Grüße".encode(), "rot13"),
        ("Grüße".encode(), "no such charset"),
        ("Grüße".encode(), "zlib"),
        ('<meta charset="iso-8859-1">Grüße'.encode(), "utf-8"),
        ('<meta charset="cp1252">Grüße'.encode("cp1252"), None),
    ],
)
async def test_the_charset_that_the_server_names_counts_if_it_is_one(
    parser: ItemParser, body: bytes, charset: str | None
) -> None:
    parsed = await parser.parse_page(body, media_type="text/html", charset=charset, name="page")
    assert parsed.text == "Grüße"


def saving(content: bytes) -> SaveFile:
    async def save(path: Path) -> None:
        await asyncio.to_thread(path.write_bytes, content)

    return save


async def test_hostile_pages_and_files_are_problems_and_the_next_one_is_parsed(parser: ItemParser) -> None:
    for name, content in [("a.pdf", b"%PDF-1.7 broken"), ("a.docx", b"PK no zip"), ("a.txt", b"\x00\x01\x02" * 99)]:
        with pytest.raises(ItemUnreadable):
            await parser.parse_file(saving(content), filename=name)
    with pytest.raises(ItemUnreadable):
        await parser.parse_page(b"<div>" * 30_000 + b"deep", media_type="text/html", charset=None, name="page")
    parsed = await parser.parse_file(saving(b"Fine."), filename="../../etc/notes.txt")
    assert parsed.text == "Fine."
