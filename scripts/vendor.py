"""Copies files of other projects that browsers load, unchanged, out of npm packages (`make vendor`; needs npm).

A manifest beside the files says of each package its version and licence, and of each file its SHA-256. To update a
package, change its version here.
"""

import hashlib
import json
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
CONSOLE: Final = ROOT / "services/console/kb_console/static/vendor"
TESTS: Final = ROOT / "tests/console/vendor"
MANIFEST: Final = "vendored.json"


@dataclass(frozen=True, slots=True)
class VendoredPackage:
    """A package of npm, and what is taken out of it: the name here by the path there."""

    name: str
    version: str
    licence: str
    folder: Path
    files: dict[str, str] = field(default_factory=dict)


PACKAGES: Final = (
    VendoredPackage(
        "htmx.org",
        "4.0.1",
        "0BSD",
        CONSOLE,
        {
            "dist/htmx.min.js": "htmx.min.js",
            "dist/ext/hx-csp.min.js": "hx-csp.min.js",
            "dist/ext/hx-sse.min.js": "hx-sse.min.js",
            "LICENSE": "htmx.LICENSE",
        },
    ),
    VendoredPackage(
        "@picocss/pico",
        "2.1.1",
        "MIT",
        CONSOLE,
        {"css/pico.min.css": "pico.min.css", "LICENSE.md": "pico.LICENSE.md"},
    ),
    VendoredPackage(
        "uplot",
        "1.6.32",
        "MIT",
        CONSOLE,
        {
            "dist/uPlot.iife.min.js": "uPlot.iife.min.js",
            "dist/uPlot.min.css": "uPlot.min.css",
            "LICENSE": "uPlot.LICENSE",
        },
    ),
    VendoredPackage("axe-core", "4.14.1", "MPL-2.0", TESTS, {"axe.min.js": "axe.min.js", "LICENSE": "axe.LICENSE"}),
)


def main() -> None:
    for folder in {package.folder for package in PACKAGES}:
        folder.mkdir(parents=True, exist_ok=True)
        vendored = [_vendor(package) for package in PACKAGES if package.folder == folder]
        (folder / MANIFEST).write_text(json.dumps(vendored, indent=2) + "\n")


def _vendor(package: VendoredPackage) -> dict[str, object]:
    digests = {}
    with TemporaryDirectory() as folder:
        packed = subprocess.run(  # noqa: S603  # names of this file
            ["npm", "pack", "--silent", f"{package.name}@{package.version}"],  # noqa: S607  # npm of the caller
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        with tarfile.open(Path(folder) / packed) as archive:
            for path, name in package.files.items():
                member = archive.extractfile(f"package/{path}")
                if member is None:
                    sys.exit(f"{package.name} has no file {path}")
                content = member.read()
                (package.folder / name).write_bytes(content)
                digests[name] = hashlib.sha256(content).hexdigest()
    return {
        "package": package.name,
        "version": package.version,
        "licence": package.licence,
        "sha256": dict(sorted(digests.items())),
    }


if __name__ == "__main__":
    main()
