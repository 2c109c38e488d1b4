"""Follows folders by repeated searches: which documents have changed, once their files are at rest."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from kb_client.files.found_file import FoundFile

QUIET_S: Final = 1.0
"""Time without a change after which a file counts as written: editors and copies write in several steps."""

_Stamp: TypeAlias = tuple[str, int, int] | None
"""Path, modification time and size; None if there is no file."""


@dataclass(frozen=True, slots=True)
class FileChanges:
    changed: tuple[FoundFile, ...]
    """Files that are new or different since they were last reported."""
    gone: frozenset[str]
    """Documents whose files are gone."""

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)


@dataclass(frozen=True, slots=True)
class _Pending:
    stamp: _Stamp
    since: float


class FolderWatch:
    """Compares searches of the same folders. It reads no clock and no file itself."""

    def __init__(self, found: Iterable[FoundFile], *, quiet_s: float = QUIET_S) -> None:
        """Begin with files that are pushed already."""
        self._reported: dict[str, _Stamp] = {each.document_id: _stamp(each) for each in found}
        self._pending: dict[str, _Pending] = {}
        self._quiet_s = quiet_s

    def observe(self, found: Iterable[FoundFile], *, now_s: float) -> FileChanges:
        """Return what has been different from the last report, and the same, for `quiet_s`.

        A file that an editor replaces is absent for a moment. This is not reported, and neither is a change that was
        undone.

        Args:
            found: files of a search that was complete.
            now_s: monotonic time of the search.
        """
        files = {each.document_id: each for each in found}
        stamps: dict[str, _Stamp] = {each: _stamp(file) for each, file in files.items()}
        ready = [
            each
            for each in sorted(stamps.keys() | self._reported.keys() | self._pending.keys())
            if self._is_ready(each, stamps.get(each), now_s)
        ]
        self._reported = {
            each: stamp
            for each, stamp in {**self._reported, **{each: stamps.get(each) for each in ready}}.items()
            if stamp is not None
        }
        return FileChanges(
            changed=tuple(files[each] for each in ready if each in files),
            gone=frozenset(each for each in ready if each not in files),
        )

    def _is_ready(self, document_id: str, stamp: _Stamp, now_s: float) -> bool:
        if stamp == self._reported.get(document_id):
            self._pending.pop(document_id, None)
            return False
        pending = self._pending.get(document_id)
        if pending is None or pending.stamp != stamp:
            pending = self._pending[document_id] = _Pending(stamp, now_s)
        if now_s - pending.since < self._quiet_s:
            return False
        del self._pending[document_id]
        return True


def _stamp(file: FoundFile) -> _Stamp:
    return str(file.path), file.modified_at_ns, file.size_bytes
