"""Reads uploaded files into documents, in a process of their own with little memory and time."""

import asyncio
import shutil
from contextlib import closing
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import BinaryIO, Final

from starlette.datastructures import UploadFile

from kb_client.files.file_parser import FileParser
from kb_client.files.file_problem import FileProblem
from kb_client.files.found_file import FoundFile, normalize_name
from kb_client.files.limits import ParseLimits
from kb_client.files.parsed_file import ParsedFile

SOURCE: Final = "console"
"""Beginning of the ids of uploaded documents. A file with the same name replaces its document."""
_PARSERS_AT_ONCE: Final = 2
_MEMORY_BYTES: Final = 2**30
_LONGEST_NAME: Final = 200
_TEXT_RECOGNITION: Final = "--ocr"
"""The option of the command line, which a browser does not have."""


class Uploads:
    def __init__(self, *, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._limits = ParseLimits(file_bytes=max_bytes, memory_bytes=_MEMORY_BYTES)
        self._slots = asyncio.Semaphore(_PARSERS_AT_ONCE)

    async def parse(self, upload: UploadFile, *, name: str | None = None) -> ParsedFile | FileProblem:
        """Return the document in a file, or why there is none. Nothing in the file makes it raise.

        `name` is that of the document, if it is another one than that of the file.
        """
        name = name or safe_name(upload.filename or "")
        async with self._slots:
            return await asyncio.to_thread(self._parse, upload.file, name)

    def _parse(self, content: BinaryIO, name: str) -> ParsedFile | FileProblem:
        with TemporaryDirectory(prefix="kb-console-") as folder:
            # The parser goes by the ending alone.
            path = Path(folder) / f"upload{PurePosixPath(name).suffix.lower()}"
            with path.open("wb") as file:
                shutil.copyfileobj(content, file)
            about = path.stat()
            found = FoundFile(path, SOURCE, name, about.st_size, about.st_mtime_ns)
            with closing(FileParser(self._limits)) as parser:
                return parser.parse(found)


def describe_file_problem(problem: FileProblem) -> str:
    """Return why a file can't be read and what to do, in words for somebody with a browser."""
    remedy = problem.remedy
    if _TEXT_RECOGNITION in remedy:
        remedy = "save it with recognized text (OCR), or push it with `kb docs push --ocr` on the command line"
    return " ".join(f"{part[:1].upper()}{part[1:]}." for part in (problem.reason, remedy))


def safe_name(given: str) -> str:
    """Return the last part of a name, with its ending, in a length and in characters that names of documents have."""
    last = normalize_name(given.replace("\\", "/")).rsplit("/", 1)[-1]
    printable = "".join(character for character in last if character.isprintable()).strip()
    stem, dot, ending = printable.rpartition(".")
    return f"{stem[:_LONGEST_NAME]}{dot}{ending[:20]}" if stem else (printable[:_LONGEST_NAME] or "document")


def safe_path(given: str) -> str:
    """Return a path within a folder, as the name of a document: folders keep files with the same name apart."""
    parts = [safe_name(part) for part in given.replace("\\", "/").split("/") if part.strip(". ")]
    while len(parts) > 1 and len("/".join(parts)) > _LONGEST_NAME:
        del parts[0]
    return "/".join(parts)
