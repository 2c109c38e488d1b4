"""Reads the files of the corpus with the parsers of this project."""

from pathlib import Path
from typing import Final

from kb_client.files.file_parser import FileParser
from kb_client.files.file_problem import FileProblem
from kb_client.files.found_file import FoundFile
from tests.files import (
    excel_cases,
    mail_cases,
    pdf_cases,
    powerpoint_cases,
    program_cases,
    text_cases,
    web_cases,
    word_cases,
)
from tests.files.case import Case

CASES: Final = [
    case
    for module in (
        text_cases,
        web_cases,
        mail_cases,
        word_cases,
        excel_cases,
        powerpoint_cases,
        pdf_cases,
        program_cases,
    )
    for case in module.CASES
]


def faults(parser: FileParser, case: Case, folder: Path) -> list[str]:
    """Return what is wrong with what is read from the file of a case, which is written into the folder."""
    read = parser.parse(found_file(write(case, folder)))
    if isinstance(read, FileProblem):
        if case.shows:
            return [f"is refused: {read.reason}; {read.remedy}"]
        return case.misses("", said=[read.reason, read.remedy])
    return case.misses(read.text, title=read.document_name, said=read.warnings)


def write(case: Case, folder: Path) -> Path:
    path = folder / f"file{case.suffix}"
    path.write_bytes(case.data)
    return path


def found_file(path: Path) -> FoundFile:
    status = path.stat()
    return FoundFile(path, path.parent.name, path.name, status.st_size, status.st_mtime_ns)
