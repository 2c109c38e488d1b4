"""Parses pages and files in a process with limits of memory and time, which a hostile one may kill."""

import asyncio
import codecs
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias

from kb_client.files.file_parser import FileParser
from kb_client.files.file_problem import FileProblem
from kb_client.files.formats import SUFFIXES
from kb_client.files.formats.text.encodings import decode_declared
from kb_client.files.found_file import FoundFile
from kb_client.files.limits import ParseLimits
from kb_client.files.parsed_file import ParsedFile

LIMITS: Final = ParseLimits(
    memory_bytes=400_000_000,
    # Brakes: fifteen times what the largest item within the other limits takes on a machine that is five times slower
    # than usual.
    cpu_s=600,
    wall_s=2_400,
    file_bytes=50 * 2**20,
    unpacked_bytes=200_000_000,
    text_bytes=4_000_000,
    pages=5_000,
)
_BY_MEDIA_TYPE: Final = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "text/plain": ".txt",
    "text/markdown": ".md",
}
MEDIA_TYPES_OF_PAGES: Final = frozenset(_BY_MEDIA_TYPE)
HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
SUFFIXES_OF_FILES: Final = frozenset({".txt", ".md", ".html", ".htm", ".csv", ".pdf", ".docx"}) & SUFFIXES
SaveFile: TypeAlias = Callable[[Path], Awaitable[None]]
"""Function that writes the contents of a file to a path."""
_FOLDER: Final = "kb-source-"


class ItemUnreadable(Exception):
    """A page or a file without a text. The message is for users and quotes nothing of it."""


class ItemParser:
    """Parses one item at a time; of a source that runs, because it keeps a process."""

    def __init__(self) -> None:
        self._parser = FileParser(LIMITS, web_links=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._parser.close()

    async def parse_page(self, body: bytes, *, media_type: str, charset: str | None, name: str) -> ParsedFile:
        """Return the text and the links of a page.

        Args:
            body: what the server sent.
            media_type: one of `MEDIA_TYPES_OF_PAGES`.
            charset: encoding that the server named.
            name: title of a page that has none.

        Raises:
            ItemUnreadable: it can't be parsed within the limits.
        """
        content = _in_utf8(body, charset)
        with tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
            path = Path(folder, "page").with_suffix(_BY_MEDIA_TYPE[media_type])
            await asyncio.to_thread(path.write_bytes, content)
            return await self._parse(path, name=name)

    async def parse_file(self, save: SaveFile, *, filename: str) -> ParsedFile:
        """Return the text of a file, whose contents this process never holds as a whole.

        Args:
            save: writes the contents to a path.
            filename: ends with one of `SUFFIXES_OF_FILES`.

        Raises:
            ItemUnreadable: it can't be parsed within the limits.
        """
        with tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
            # A user or a server has chosen the name: it is no path here.
            path = Path(folder, "file").with_suffix(Path(filename).suffix.lower())
            await save(path)
            return await self._parse(path, name=filename)

    async def _parse(self, path: Path, *, name: str) -> ParsedFile:
        try:
            parsed = await asyncio.to_thread(self._parse_now, path, name=name)
        except asyncio.CancelledError:
            # The thread ends with the process.
            self._parser.close()
            raise
        if isinstance(parsed, FileProblem):
            raise ItemUnreadable(f"{parsed.reason}; {parsed.remedy}")
        return parsed

    def _parse_now(self, path: Path, *, name: str) -> ParsedFile | FileProblem:
        status = path.stat()
        return self._parser.parse(FoundFile(path, "source", name, status.st_size, status.st_mtime_ns))


def _in_utf8(body: bytes, charset: str | None) -> bytes:
    """Return a page in UTF-8 with a mark, if the server named its encoding; what the page says itself counts less."""
    text = decode_declared(body, charset)
    return body if text is None else codecs.BOM_UTF8 + text.encode("utf-8", "replace")
