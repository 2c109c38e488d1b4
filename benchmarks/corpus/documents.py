"""Documents of the corpus: one JSON object per line, in an order that does not depend on the machine."""

import hashlib
import heapq
import json
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.corpus.packages import PageFile
from benchmarks.corpus.page_text import read_page

MIN_CHARACTERS: Final = 200
"""Shorter pages are lists of links and redirects."""
MAX_BYTES: Final = 500_000
"""Longer pages would not fit in one event, which has 1 MB."""
_PAGES_A_CALL: Final = 100
_MANUAL_ROOTS: Final = frozenset({"html", "manual", "text"})
_LANGUAGE: Final = re.compile("[a-z]{2}(-[a-z]{2})?")
_UNUSABLE: Final = re.compile("[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class RealDocument:
    document_id: str
    name: str
    language: str
    tag_ids: tuple[str, ...]
    """The package and, separated by a dot, its section."""
    text: str


@dataclass(frozen=True, slots=True)
class CorpusSelection:
    documents: list[RealDocument]
    pages: int
    """Pages that were read."""
    short: int
    long: int
    doubled: int
    """Pages with the text of another page."""


def select_documents(pages: Iterable[PageFile], *, most: int) -> CorpusSelection:
    """Read all pages and keep `most` of them.

    Documents are ordered by the digest of their id. So a smaller corpus is the beginning of a larger one, and each
    beginning contains pages of all packages.
    """
    read: dict[str, tuple[str, RealDocument]] = {}
    counts = {"pages": 0, "short": 0, "long": 0, "doubled": 0}
    with ProcessPoolExecutor() as executor:
        for document in executor.map(read_document, pages, chunksize=_PAGES_A_CALL):
            counts["pages"] += 1
            size = len(document.text.encode())
            digest = _digest(document.text)
            if len(document.text) < MIN_CHARACTERS:
                counts["short"] += 1
            elif size > MAX_BYTES:
                counts["long"] += 1
            elif digest in read:
                counts["doubled"] += 1
            else:
                read[digest] = (_digest(document.document_id), document)
    chosen = heapq.nsmallest(most, read.values(), key=lambda each: each[0])
    return CorpusSelection([document for _, document in chosen], **counts)


def read_document(page: PageFile) -> RealDocument:
    title, language, text = read_page(page.file.read_text(encoding="utf-8", errors="replace"))
    return RealDocument(
        document_id=f"{page.package}-{_digest(page.path)[:16]}",
        name=title or page.path.rpartition("/")[2],
        language=language or "en",
        tag_ids=(page.package, f"{page.package}.{_section(page.path)}"),
        text=text,
    )


def write_documents(documents: Iterable[RealDocument], file: Path) -> None:
    lines = (json.dumps(asdict(document), ensure_ascii=False) + "\n" for document in documents)
    with file.open("w", encoding="utf-8") as opened:
        opened.writelines(lines)


def read_documents(file: Path, *, most: int | None = None) -> Iterator[RealDocument]:
    """Yield the documents of a corpus in their order, `most` of them at most."""
    with file.open(encoding="utf-8") as opened:
        for number, line in enumerate(opened):
            if most is not None and number >= most:
                return
            row = json.loads(line)
            yield RealDocument(**{**row, "tag_ids": tuple(row["tag_ids"])})


def _section(path: str) -> str:
    """Return the folder of a page below the root of its manual, such as `driver-api`; `main` if there is none."""
    folders = path.split("/")[3:-1]
    roots = [position for position, folder in enumerate(folders) if folder in _MANUAL_ROOTS]
    below = [folder for folder in folders[roots[-1] + 1 if roots else 1 :] if not _LANGUAGE.fullmatch(folder)]
    return _UNUSABLE.sub("-", (below or ["main"])[0]).strip("-_")[:64]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
