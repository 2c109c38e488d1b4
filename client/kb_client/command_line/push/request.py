"""Arguments of a push, and the files that they mean."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kb_client.files.find_files import FoundFiles, find_files

if TYPE_CHECKING:
    from kb_client.files.found_file import FoundFile


@dataclass(frozen=True, slots=True)
class PushRequest:
    """Arguments of the command."""

    paths: Sequence[str]
    kb: str | None = None
    tag_ids: Sequence[str] = ()
    root: Path | None = None
    source: str | None = None
    exclude: Sequence[str] = ()
    adopt: bool = False
    prune: bool = False
    yes: bool = False
    strict: bool = False
    watch: bool = False
    wait: bool = True
    dry_run: bool = False
    ocr: bool = False
    ocr_languages: str = "eng"
    as_json: bool = False

    def find_files(self) -> FoundFiles:
        """Search the folders. Raises AmbiguousSource, UnusableIgnoreRules."""
        return find_files(self.paths, root=self.root, source=self.source, exclude=self.exclude)


@dataclass(slots=True)
class FilesToPush:
    """Files with their digests."""

    found: FoundFiles
    files: dict[str, "FoundFile"] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)
