"""Debian packages with documentation: downloaded with apt and unpacked in a folder, without root."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PACKAGES: Final = (
    *("apache2-doc", "cmake-doc", "git-doc", "linux-doc-6.1", "postgresql-doc-15", "python-django-doc"),
    *("python3.11-doc", "sqlite3-doc"),
    *(f"libreoffice-help-{language}" for language in ("de", "en-us", "es", "fr")),
)
"""Packages of Debian 12 with 19,000 HTML pages in English, German, French and Spanish, and some in other languages."""
_TOOLS: Final = ("apt-get", "dpkg-deb")


@dataclass(frozen=True, slots=True)
class PageFile:
    package: str
    path: str
    """Within the package; the same on every machine."""
    file: Path


class PackageDownloadFailed(Exception):
    """A package is missing. `str()` says what to do."""


def fetch_packages(packages: Sequence[str], folder: Path) -> None:
    """Download and unpack packages into subfolders of `folder`. A package that is there already is not downloaded."""
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        raise PackageDownloadFailed(f"{' and '.join(missing)} not found: the corpus can be made on Debian 12 only")
    folder.mkdir(parents=True, exist_ok=True)
    needed = [package for package in packages if not (folder / package).is_dir()]
    if needed:
        _run("apt-get", "download", *needed, folder=folder)
    for package in needed:
        _unpack(package, folder)


def list_pages(packages: Sequence[str], folder: Path) -> Iterator[PageFile]:
    """Yield the HTML pages of unpacked packages in an order that depends on their paths only."""
    for package in sorted(packages):
        root = folder / package
        for file in sorted(root.rglob("*.html")):
            if file.is_file() and not file.is_symlink():
                yield PageFile(package, file.relative_to(root).as_posix(), file)


def _unpack(package: str, folder: Path) -> None:
    archives = sorted(folder.glob(f"{package}_*.deb"))
    if not archives:
        raise PackageDownloadFailed(f"apt-get did not download {package}: run `apt-get update` as root, and try again")
    unpacked = folder / f"{package}.unpacking"
    _run("dpkg-deb", "-x", archives[-1].name, unpacked.name, folder=folder)
    # Renamed at the end, so that an interrupted run leaves no half of a package.
    unpacked.rename(folder / package)
    for archive in archives:
        archive.unlink()


def _run(*command: str, folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603  # no user input
    if done.returncode:
        raise PackageDownloadFailed(f"`{' '.join(command)}` failed:\n{done.stdout}{done.stderr}")
