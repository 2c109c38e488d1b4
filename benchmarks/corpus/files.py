"""`python -m benchmarks.corpus.files --to FOLDER`: a folder of real PDF and Markdown files, to try `kb docs push` on.

Downloads packages of Debian 12 with `apt-get download` (14 MB), unpacks them without root, and copies as many PDF as
Markdown files, chosen by their paths only, into `FOLDER/handbook`:

    python -m benchmarks.corpus.files --to /tmp/try-out
    cd /tmp/try-out
    kb up && kb docs push handbook && kb ask "How does a package declare a dependency?"
"""

import argparse
import gzip
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.corpus.packages import PackageDownloadFailed, fetch_packages

PACKAGES: Final = (
    *("debian-faq", "debian-policy", "developers-reference", "docker-doc", "graphviz-doc", "libtasn1-doc"),
    "nodejs-doc",
)
_FORMATS: Final = (".pdf", ".md")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.corpus.files",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--files", type=int, default=50, help="number of files (default: 50)")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="gets the files and the packages")
    options = parser.parse_args()
    packages = options.to / "packages"
    try:
        fetch_packages(PACKAGES, packages)
    except PackageDownloadFailed as error:
        sys.exit(str(error))
    copied = [each for suffix in _FORMATS for each in _copy(packages, suffix, options)]
    sizes = {suffix: sum(each.suffix == suffix for each in copied) for suffix in _FORMATS}
    print(json.dumps({"files": sizes, "bytes": sum(each.stat().st_size for each in copied)}, indent=2))


def _copy(packages: Path, suffix: str, options: argparse.Namespace) -> list[Path]:
    """Copy some files of a format, from all packages alike, and return the copies."""
    found = [file for file in sorted(packages.rglob(f"*{suffix}*")) if _format_of(file) == suffix]
    return [
        _copied(file, options.to / "handbook" / _folder_of(file.relative_to(packages)))
        for file in _spread(found, options.files // len(_FORMATS))
    ]


def _spread(files: Sequence[Path], number: int) -> list[Path]:
    """Return `number` files at equal distances."""
    step = max(1.0, len(files) / number)
    return [files[int(at * step)] for at in range(min(number, len(files)))]


def _copied(file: Path, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / file.name.removesuffix(".gz")
    if file.suffix == ".gz":
        with gzip.open(file) as packed:
            copy.write_bytes(packed.read())
    else:
        shutil.copyfile(file, copy)
    return copy


def _folder_of(file: Path) -> Path:
    """Return the folder of a file below that of its package's documentation."""
    package, *folders = file.parent.parts
    return Path(package, *folders[len(("usr", "share", "doc", package)) :])


def _format_of(file: Path) -> str:
    return Path(file.name.removesuffix(".gz")).suffix if file.is_file() and not file.is_symlink() else ""


if __name__ == "__main__":
    main()
