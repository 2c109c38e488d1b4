"""Rules of `.kbignore` files and of `--exclude`: what of a folder is not pushed, in the syntax of .gitignore."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore import GitIgnorePatternError

from kb_client.files.found_file import relative_name

IGNORE_FILE: Final = ".kbignore"


class UnusableIgnoreRules(Exception):
    """The rules can't be read, so it is unknown what must not be sent. The message says what to do."""


@dataclass(frozen=True, slots=True)
class _RulesOfFolder:
    folder: Path
    """Folder that the rules are relative to."""
    spec: GitIgnoreSpec
    reason: str

    def decide(self, path: Path, *, is_folder: bool) -> bool | None:
        """Return whether a path is excluded; None if no rule is about it."""
        return self.spec.check_file(relative_name(path, self.folder) + "/" * is_folder).include


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """Rules for the contents of a folder: of the command line first, then of the folder and those around it."""

    excluded: _RulesOfFolder | None = None
    of_folders: tuple[_RulesOfFolder, ...] = ()
    """From the inside to the outside."""

    @classmethod
    def of_command(cls, root: Path, patterns: Sequence[str]) -> Self:
        """Return the rules of `--exclude`, which are relative to `root`. Raises UnusableIgnoreRules."""
        return cls(
            _RulesOfFolder(root, _parse(patterns, place="--exclude"), "excluded by --exclude") if patterns else None
        )

    def within(self, folder: Path) -> "IgnoreRules":
        """Return these rules with those in the ignore file of `folder`, if it has one. Raises UnusableIgnoreRules."""
        file = folder / IGNORE_FILE
        try:
            lines = file.read_text(encoding="utf-8-sig").splitlines()
        except FileNotFoundError:
            return self
        except (OSError, UnicodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise UnusableIgnoreRules(
                f"{file} can't be read ({why}), so nothing is sent; correct it, or remove it"
            ) from None
        own = _RulesOfFolder(folder, _parse(lines, place=str(file)), f"excluded by {IGNORE_FILE}")
        return IgnoreRules(self.excluded, (own, *self.of_folders))

    def find_reason(self, path: Path, *, is_folder: bool) -> str | None:
        """Return why a path is left out, in words, or None. The innermost folder that has a rule about it decides."""
        if self.excluded is not None and self.excluded.decide(path, is_folder=is_folder):
            return self.excluded.reason
        for rules in self.of_folders:
            decision = rules.decide(path, is_folder=is_folder)
            if decision is not None:
                return rules.reason if decision else None
        return None


def _parse(lines: Iterable[str], *, place: str) -> GitIgnoreSpec:
    # Paths are compared in composed characters, in which macOS does not write them.
    composed = [unicodedata.normalize("NFC", line) for line in lines]
    try:
        return GitIgnoreSpec.from_lines(composed)
    except GitIgnorePatternError as error:
        raise UnusableIgnoreRules(f"{place}: {error}. The syntax is that of .gitignore; nothing is sent") from None
