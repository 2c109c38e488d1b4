"""Finds the files that the arguments of a push mean: files, folders and patterns."""

import glob
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kb_client.files.document_ids import AmbiguousSource
from kb_client.files.file_problem import FileProblem
from kb_client.files.formats import SUFFIXES, describe_type
from kb_client.files.found_file import FoundFile, normalize_name, relative_name
from kb_client.files.ignore_rules import IGNORE_FILE, IgnoreRules
from kb_client.files.ignored_names import reason_to_ignore
from kb_client.files.path_pattern import matches_pattern

MAX_FILES: Final = 100_000
_MAX_DEPTH: Final = 100


@dataclass(frozen=True, slots=True)
class SkippedPath:
    """A file or a folder that was met and left out, with the reason."""

    path: Path
    reason: str
    suffix: str | None = None
    """Type of a file that can't be read because of it."""


@dataclass(slots=True)
class FoundFiles:
    files: list[FoundFile] = field(default_factory=list)
    skipped: list[SkippedPath] = field(default_factory=list)
    problems: list[FileProblem] = field(default_factory=list)
    complete_sources: set[str] = field(default_factory=set)
    """Folders that were searched as a whole: a document of theirs without a file is gone."""
    roots: dict[str, Path] = field(default_factory=dict)
    """Folder that the ids of each source are relative to."""


def find_files(
    paths: Sequence[str | Path], *, root: Path | None = None, source: str | None = None, exclude: Sequence[str] = ()
) -> FoundFiles:
    """Find files. Ids are relative to a named folder, to the folder of a named file, or to the fixed part of a pattern.

    Args:
        paths: files, folders, and patterns with `*`, `?`, `[...]` and `**`.
        root: folder that all ids are relative to instead.
        source: name to use instead of the folder's own, for example because another folder has the same name.
        exclude: patterns of files and folders to leave out, as in .gitignore.

    Raises:
        AmbiguousSource: two folders with the same name were named.
        UnusableIgnoreRules: `exclude`, or an ignore file in a folder, can't be read.
    """
    search = _Search(root=root.resolve() if root else None, source=source, exclude=exclude)
    for path in paths:
        search.add(str(path))
    return search.found


class _Search:
    def __init__(self, *, root: Path | None, source: str | None, exclude: Sequence[str]) -> None:
        self.found = FoundFiles()
        self._root = root
        self._source = source
        self._exclude = exclude
        self._rules: dict[tuple[Path, Path], IgnoreRules | str] = {}
        self._seen: set[Path] = set()
        self._incomplete: set[str] = set()

    def add(self, argument: str) -> None:
        path = Path(argument)
        if path.is_dir():
            self._add_folder(path.resolve())
        elif path.exists():
            self._add_named(path)
        elif glob.has_magic(argument):
            self._add_matches(path)
        else:
            self._report(path, "there is no such file or folder", "check the path")

    def _add_folder(self, folder: Path) -> None:
        root = self._root_of(folder)
        if root is None:
            return
        source = self._name_source(root)
        for path in self._walk_argument(folder, root, source):
            self._add_file(path, root, source)
        if folder == root and source not in self._incomplete:
            self.found.complete_sources.add(source)

    def _add_named(self, path: Path) -> None:
        # The file itself may be a link; its folder is what ids are relative to.
        path = path.parent.resolve() / path.name
        root = self._root_of(path.parent)
        if path.suffix.lower() not in SUFFIXES:
            self._report(path, describe_type(path.suffix.lower()), _OTHER_TYPE)
        elif root is not None and not self._leave_out(path, root):
            self._add_file(path, root, self._name_source(root))

    def _add_matches(self, pattern: Path) -> None:
        fixed = _fixed_part(pattern)
        if not fixed.is_dir():
            self._report(pattern, f"there is no folder {fixed}", "check the path")
            return
        folder = fixed.resolve()
        root = self._root_of(folder)
        if root is None:
            return
        source = self._name_source(root)
        wanted = pattern.relative_to(fixed).parts if fixed != Path() else pattern.parts
        matches = [
            path
            for path in self._walk_argument(folder, root, source)
            if matches_pattern(path.relative_to(folder).parts, wanted)
        ]
        if not matches:
            self._report(pattern, "no file matches it", "check the pattern, or name a folder")
        for path in matches:
            self._add_file(path, root, source)

    def _root_of(self, folder: Path) -> Path | None:
        if self._root is None or folder.is_relative_to(self._root):
            return self._root or folder
        self._report(folder, f"it is not inside {self._root}", "name another root, or none")
        return None

    def _name_source(self, root: Path) -> str:
        source = normalize_name(self._source or root.name)
        if not source:
            raise AmbiguousSource(f"{root} has no name; give its documents one with --source")
        if self.found.roots.setdefault(source, root) != root:
            raise AmbiguousSource(
                f"{self.found.roots[source]} and {root} have the same name, so their documents would replace each "
                "other; push them one by one with different --source names, or push a folder that contains both"
            )
        return source

    def _walk_argument(self, folder: Path, root: Path, source: str) -> Iterator[Path]:
        """Yield the files that can be read of a folder that was named."""
        rules = self._rules_in(folder, root)
        if isinstance(rules, str):
            self.found.skipped.append(SkippedPath(folder, rules))
        else:
            yield from self._walk(folder, source, rules)

    def _leave_out(self, file: Path, root: Path) -> bool:
        """Return whether the rules exclude a file that was named: a shell names all files of a folder for a `*`."""
        rules = self._rules_in(file.parent, root)
        reason = rules if isinstance(rules, str) else rules.find_reason(file, is_folder=False)
        if reason is not None:
            self.found.skipped.append(SkippedPath(file, reason))
        return reason is not None

    def _rules_in(self, folder: Path, root: Path) -> IgnoreRules | str:
        """Return the rules for the contents of a folder, or the reason why it is left out as a whole."""
        if (folder, root) not in self._rules:
            self._rules[folder, root] = self._read_rules(folder, root)
        return self._rules[folder, root]

    def _read_rules(self, folder: Path, root: Path) -> IgnoreRules | str:
        if folder == root:
            return IgnoreRules.of_command(root, self._exclude).within(root)
        around = self._rules_in(folder.parent, root)
        if isinstance(around, str):
            return around
        return around.find_reason(folder, is_folder=True) or around.within(folder)

    def _walk(self, folder: Path, source: str, rules: IgnoreRules, *, depth: int = 0) -> Iterator[Path]:
        """Yield the files that can be read, in the order of their names."""
        try:
            entries = sorted(
                (each for each in os.scandir(folder) if each.name != IGNORE_FILE), key=lambda entry: entry.name
            )
        except OSError as error:
            problem = FileProblem(folder, f"it can't be listed ({error.strerror})", "check its permissions")
            self._give_up(source, problem)
            return
        for entry in entries:
            path = Path(entry.path)
            is_folder = entry.is_dir(follow_symlinks=False)
            if skipped := _skip(entry, rules):
                self.found.skipped.append(skipped)
            elif not is_folder:
                yield path
            elif depth < _MAX_DEPTH:
                yield from self._walk(path, source, rules.within(path), depth=depth + 1)
            else:
                reason = f"it is inside more than {_MAX_DEPTH} folders"
                self._give_up(source, FileProblem(path, reason, "push it by itself"))

    def _add_file(self, path: Path, root: Path, source: str) -> None:
        real = path.resolve()
        if real in self._seen:
            return
        if len(self._seen) >= MAX_FILES:
            if source not in self._incomplete:
                self._give_up(
                    source,
                    FileProblem(root, f"there are more than {MAX_FILES} files", "push the folders in it one by one"),
                )
            return
        self._seen.add(real)
        try:
            status = real.stat()
        except OSError as error:
            self._report(path, f"it can't be read ({error.strerror})", "check that it exists and its permissions")
            return
        if not stat.S_ISREG(status.st_mode):
            self._report(path, "it is not a regular file", "name a file or a folder")
            return
        self.found.files.append(FoundFile(path, source, relative_name(path, root), status.st_size, status.st_mtime_ns))

    def _give_up(self, source: str, problem: FileProblem) -> None:
        """Report what was not searched; nothing of this source counts as gone then."""
        self._incomplete.add(source)
        self.found.complete_sources.discard(source)
        self.found.problems.append(problem)

    def _report(self, path: Path, reason: str, remedy: str) -> None:
        self.found.problems.append(FileProblem(path, reason, remedy))


_OTHER_TYPE: Final = f"save it as one of {', '.join(sorted(SUFFIXES))}"
_NAMED_TYPES: Final = 12


def _skip(entry: os.DirEntry[str], rules: IgnoreRules) -> SkippedPath | None:
    """Return an entry of a folder with the reason why it is left out, or None."""
    path, is_folder = Path(entry.path), entry.is_dir(follow_symlinks=False)
    reason = (
        reason_to_ignore(entry.name, is_folder=is_folder)
        or rules.find_reason(path, is_folder=is_folder)
        or _reason_to_skip(entry)
    )
    if reason is not None:
        return SkippedPath(path, reason)
    suffix = path.suffix.lower()
    if is_folder or suffix in SUFFIXES:
        return None
    return SkippedPath(path, "files of a type that can't be read", suffix)


def _reason_to_skip(entry: os.DirEntry[str]) -> str | None:
    if entry.is_symlink():
        # It could lead out of the folder, to a file that was not meant, or in a circle.
        return "a link"
    if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False):
        return None
    return "not a regular file"


def _name_type(suffix: str) -> str:
    return suffix or "(none)"


def _fixed_part(pattern: Path) -> Path:
    """Return the folders of a pattern before the first one with a wildcard."""
    fixed = Path()
    for part in pattern.parts:
        if glob.has_magic(part):
            break
        fixed /= part
    return fixed


def count_by_reason(skipped: Iterable[SkippedPath]) -> dict[str, int]:
    """Count what was left out by reason, most frequent first, for a summary. Types that can't be read are one."""
    counts: Counter[str] = Counter()
    types: dict[str, set[str]] = {}
    for each in skipped:
        counts[each.reason] += 1
        if each.suffix is not None:
            types.setdefault(each.reason, set()).add(_name_type(each.suffix))
    named = {reason: f"{reason} ({_list_types(types[reason])})" if reason in types else reason for reason in counts}
    return {named[reason]: count for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))}


def _list_types(types: set[str]) -> str:
    shown = sorted(types)[:_NAMED_TYPES]
    more = len(types) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
