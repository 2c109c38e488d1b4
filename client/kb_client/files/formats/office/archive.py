"""Checks the archives that Word, PowerPoint and Excel files are, before a library unpacks them."""

import io
import zipfile
from typing import Final

from kb_client.files.extraction import ExtractOptions, UnreadableDocument

_OLE: Final = bytes.fromhex("d0cf11e0a1b11ae1")
"""Beginning of files of Office before 2007, and of encrypted ones."""
_MACROS: Final = "vbaproject.bin"


def open_archive(data: bytes, options: ExtractOptions) -> io.BytesIO:
    """Return the file to read. Nothing is unpacked yet.

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
    return io.BytesIO(data)
