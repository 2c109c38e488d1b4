"""The wheels that `make dist` has built, and the files of the repository that belong into each."""

import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
DIST: Final = ROOT / "dist"
FOLDERS: Final = (
    "contracts",
    "shared",
    "client",
    "services/kb-api",
    "services/indexer",
    "services/search",
    "services/reconciler",
    "services/knowledge",
    "services/console",
    "local",
)


@dataclass(frozen=True, slots=True)
class PublishedPackage:
    """A package that is published as a wheel."""

    folder: Path
    project: dict[str, Any]

    @property
    def name(self) -> str:
        name: str = self.project["name"]
        return name

    @property
    def module(self) -> str:
        return self.name.replace("-", "_")

    @property
    def wheel(self) -> Path:
        return DIST / f"{self.module}-{self.project['version']}-py3-none-any.whl"

    def tracked_files(self) -> set[str]:
        """Return the files that git has of the module, as paths in its wheel; links are followed."""
        listed = subprocess.run(
            ["git", "ls-files", self.module], cwd=self.folder, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        return {str(file.relative_to(self.folder)) for path in listed for file in _files_at(self.folder / path)}


def published_packages() -> list[PublishedPackage]:
    return [
        PublishedPackage(ROOT / folder, tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"])
        for folder in FOLDERS
    ]


def wheel_of(name: str) -> Path:
    return next(package.wheel for package in published_packages() if package.name == name)


def _files_at(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (file for file in path.rglob("*") if file.is_file())
    else:
        yield path
