"""Names that a push leaves out: hidden files, what tools and editors write beside documents, installed packages."""

from fnmatch import fnmatchcase
from typing import Final

_FOLDERS_OF_TOOLS: Final = frozenset(
    {"__pycache__", "__macosx", "bower_components", "cvs", "node_modules", "site-packages", "venv"}
)
_TEMPORARY: Final = ("~$*", "*~", "#*#", "*.swp", "*.swo", "*.tmp", "*.temp", "*.part", "*.partial", "*.crdownload")
_OF_SYSTEMS: Final = frozenset({"thumbs.db", "desktop.ini"})


def reason_to_ignore(name: str, *, is_folder: bool) -> str | None:
    """Return why a file or folder is left out, in words, or None."""
    lower = name.lower()
    if name.startswith("."):
        return "hidden"
    if is_folder:
        return "a folder of a tool, such as node_modules" if lower in _FOLDERS_OF_TOOLS else None
    if lower in _OF_SYSTEMS or any(fnmatchcase(lower, pattern) for pattern in _TEMPORARY):
        return "a temporary file"
    return None
