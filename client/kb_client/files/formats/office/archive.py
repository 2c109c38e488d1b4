"""Checks the archives that Word, PowerPoint and Excel files are, before a library unpacks them."""

import io
import re
import zipfile
from contextlib import suppress
from typing import Final

from kb_client.files.extraction import ExtractOptions, UnreadableDocument

_OLE: Final = bytes.fromhex("d0cf11e0a1b11ae1")
"""Beginning of files of Office before 2007, and of encrypted ones."""
_MACROS: Final = "vbaproject.bin"
_START: Final = "_rels/.rels"
"""Member that names the main part of a file."""
_XML: Final = (".xml", ".rels")
_STRICT: Final = re.compile(rb"""(?<=["'])http://purl\.oclc\.org/ooxml/(\w+)/""")
"""Beginning of a name in the strict form of Open XML (ISO 29500-1), which Office offers beside its own."""
_TRANSITIONAL: Final = rb"http://schemas.openxmlformats.org/\1/2006/"


def open_archive(data: bytes, options: ExtractOptions) -> io.BytesIO:
    """Return the file to read, in the form that libraries know. Only one in the strict form is unpacked for that.

    Raises:
        UnreadableDocument: it is encrypted or of another format, has macros, or unpacks to more than is allowed.
    """
    if data.startswith(_OLE):
        raise UnreadableDocument(
            "it is encrypted, or in the format of Office before 2007",
            "save it without a password in the present format",
        )
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError):
        raise UnreadableDocument("it is damaged, or of another format than its name says", "save it again") from None
    # Nothing here would execute them, but Office never writes them into files of these names.
    if any(member.filename.lower().endswith(_MACROS) for member in members):
        raise UnreadableDocument("it contains macros, which files of this name can't have", "save it without macros")
    # A file that states less than it has is refused by zipfile while it is read.
    if sum(member.file_size for member in members) > options.limits.unpacked_bytes:
        raise UnreadableDocument(
            f"it unpacks to more than {options.limits.unpacked_bytes // 1_000_000} MB", "split it, or export its text"
        )
    return _to_transitional(data)


def _to_transitional(data: bytes) -> io.BytesIO:
    """Return a file with the names that Office gives elements by default, also if it was saved in the strict form."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if not _is_strict(archive):
            return io.BytesIO(data)
        renamed = io.BytesIO()
        with zipfile.ZipFile(renamed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as written:
            # Of members with one name, libraries read the last.
            for name in dict.fromkeys(archive.namelist()):
                content = archive.read(name)
                written.writestr(name, _STRICT.sub(_TRANSITIONAL, content) if name.endswith(_XML) else content)
    renamed.seek(0)
    return renamed


def _is_strict(archive: zipfile.ZipFile) -> bool:
    with suppress(KeyError):
        return _STRICT.search(archive.read(_START)) is not None
    return False
