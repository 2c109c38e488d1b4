"""Turns files of Office into the strict form of Open XML (ISO 29500-1), which Office offers beside its own."""

import io
import re
import zipfile
from typing import Final

_NAME: Final = re.compile(rb"http://schemas\.openxmlformats\.org/(\w+)/2006/")
_OWN_IN_BOTH: Final = (b"package", b"markup-compatibility")
"""Parts of the standard that are the same in both forms."""


def to_strict(data: bytes) -> bytes:
    """Return a file with the names that the strict form has."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            new.writestr(name, _NAME.sub(_strict_name, old.read(name)))
    return file.getvalue()


def _strict_name(found: re.Match[bytes]) -> bytes:
    return found[0] if found[1] in _OWN_IN_BOTH else b"http://purl.oclc.org/ooxml/%s/" % found[1]
