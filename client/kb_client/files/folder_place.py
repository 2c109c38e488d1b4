"""Tells two pushed folders of the same name apart by where they are."""

import socket
from dataclasses import dataclass
from pathlib import Path

from kb_client.files.found_file import normalize_name


@dataclass(frozen=True, slots=True)
class FolderPlace:
    host: str
    """Name of the machine, without its domain, which changes with the network."""
    path: str
    """Absolute path, without links."""
    is_named: bool = False
    """True if a person has named it, so that it is the same one wherever it is."""

    def __str__(self) -> str:
        return f"{self.host}:{self.path}"


def find_place(root: Path, *, is_named: bool) -> FolderPlace:
    """Return the place of a folder on this machine."""
    host = socket.gethostname().partition(".")[0].lower()
    return FolderPlace(host, normalize_name(str(root.resolve())), is_named)


def is_same_folder(stored: FolderPlace, mine: FolderPlace) -> bool:
    """Return whether a folder is the one that has its name: the place decides, unless both were named by a person."""
    return (stored.is_named and mine.is_named) or (stored.host, stored.path) == (mine.host, mine.path)
