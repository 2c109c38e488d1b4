"""Installs for the build stages of the Dockerfile: `tool FOLDER LOCK`, `dependencies LOCK` or `packages NAME...`.

The dependencies of an image, which seldom change, and the packages of this project go to two folders, so that they
become two layers and an update transfers the small one. A tool of the build gets an environment of its own,
which is in no image.
"""

import shutil
import subprocess
import sys
from pathlib import Path

DEPENDENCIES = Path("/opt/kb")
PACKAGES = Path("/opt/packages")
WHEELS = Path("/wheels")
UNNEEDED = Path(__file__).with_name("unneeded.txt")


def install_tool(folder: str, lock: str) -> None:
    """Create an environment with a tool of the build, pinned as the dependencies are."""
    _run(sys.executable, "-m", "venv", folder)
    _pip(Path(folder) / "bin" / "python", "--require-hashes", "--requirement", lock)


def install_dependencies(lock: str) -> None:
    """Create the environment with exactly what the lock names, each file checked by its hash."""
    _run(sys.executable, "-m", "venv", "--without-pip", str(DEPENDENCIES))
    _pip(DEPENDENCIES / "bin" / "python", "--require-hashes", "--requirement", lock)
    for site_packages in DEPENDENCIES.glob("lib/python*/site-packages"):
        _remove_unneeded(site_packages)
    _compile(DEPENDENCIES)


def install_packages(names: list[str]) -> None:
    """Install wheels of this project, without their dependencies, into a folder of their own."""
    wheels = [str(wheel) for name in names for wheel in WHEELS.glob(f"{name}-*.whl")]
    if len(wheels) != len(names):
        raise SystemExit(f"expected one wheel of each of {names}, and found {wheels}")
    # The environment's Python: commands such as `kb` begin with its path.
    _pip(DEPENDENCIES / "bin" / "python", "--no-index", "--prefix", str(PACKAGES), *wheels)
    _compile(PACKAGES)


def _pip(python: Path, *arguments: str) -> None:
    _run(
        *(sys.executable, "-m", "pip", "--python", str(python), "--no-cache-dir", "install"),
        *("--no-deps", "--no-compile", "--progress-bar", "off", "--root-user-action", "ignore"),
        *arguments,
    )


def _remove_unneeded(site_packages: Path) -> None:
    for line in UNNEEDED.read_text().splitlines():
        if line and not line.startswith("#"):
            found = list(site_packages.glob(line))
            if not found and (site_packages / line.partition("/")[0]).exists():
                raise SystemExit(f"{line!r} of {UNNEEDED.name} names nothing: remove or correct it")
            for path in found:
                shutil.rmtree(path)


def _compile(folder: Path) -> None:
    # The bytecode is valid whatever the times of the files are, and is not compared with them at each start.
    _run(
        *(sys.executable, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"),
        *("-s", str(folder), "-p", str(DEPENDENCIES), str(folder / "lib")),
    )


def _run(*command: str) -> None:
    subprocess.run(command, check=True)  # noqa: S603  # the commands of this file


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["tool", folder, lock]:
            install_tool(folder, lock)
        case ["dependencies", lock]:
            install_dependencies(lock)
        case ["packages", *names] if names:
            install_packages(names)
        case _:
            raise SystemExit(__doc__)
