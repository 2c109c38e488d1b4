"""Provides the code of an earlier commit, to be run with the dependencies of this checkout."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants.mutant import ROOT

VERSION_BEFORE: Final = "4bf5806061a581c384a85e44c60bb97b2cc9bcb6"
"""The commit that an update begins with, by default: the last one before images, manifests and alerts were added."""
PACKAGE_FOLDERS: Final = (
    "contracts",
    "shared",
    "client",
    "services/kb-api",
    "services/indexer",
    "services/search",
    "services/knowledge",
    "services/reconciler",
)
"""Folders with the code of the services, which a version may lack; kb_local, which only starts them, is always that of
this checkout."""


class CommitNotInClone(Exception):
    """The clone does not contain the commit; the message says how to fetch it."""


@dataclass(frozen=True, slots=True)
class CodeVersion:
    name: str
    """In names of processes and in the report."""
    root: Path
    """Folder with the files of the repository in this version."""

    @property
    def python_path(self) -> str:
        """Return the value of PYTHONPATH that puts this version before the installed packages."""
        return os.pathsep.join(map(str, self._folders()))

    def has(self, program: str) -> bool:
        """Return whether this version has a program, such as `kb_api`."""
        module = Path(*program.split("."), "__main__.py")
        return any((folder / module).exists() for folder in self._folders())

    def contains(self, folder: str) -> bool:
        """Return whether a folder is in this version."""
        return Path(folder).is_relative_to(self.root)

    def _folders(self) -> list[Path]:
        return [folder for name in PACKAGE_FOLDERS if (folder := self.root / name).exists()]


def current_version() -> CodeVersion:
    """Return the code of this checkout."""
    return CodeVersion("this-version", ROOT)


def extract_version(commit: str, folder: Path, *, repository: Path = ROOT) -> CodeVersion:
    """Extract the services of a commit into a new folder.

    Raises:
        CommitNotInClone: the repository has no such commit.
    """
    found = _git(repository, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    if found.returncode:
        raise CommitNotInClone(_explain_missing(commit, repository))
    full_hash = found.stdout.decode().strip()
    existing = _git(repository, "ls-tree", "--name-only", full_hash, *PACKAGE_FOLDERS).stdout.decode().splitlines()
    archive = _git(repository, "archive", "--format=tar", full_hash, *existing)
    archive.check_returncode()
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "--extract", "--directory", folder], input=archive.stdout, check=True)
    return CodeVersion(f"version-{full_hash[:7]}", folder)


def _explain_missing(commit: str, repository: Path) -> str:
    shallow = _git(repository, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
    remedy = "git fetch --unshallow" if shallow else f"git fetch origin {commit}"
    return f"commit {commit} is not in this clone: run `{remedy}`, or name another commit with --from"


def _git(repository: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", repository, *arguments], check=False, capture_output=True)
