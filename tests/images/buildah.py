"""Builds and inspects images with buildah, in a storage of the checkout's own."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / ".images"
REAL_BASE: Final = "docker.io/library/python:3.11-slim-bookworm"
STAND_IN_BASE: Final = "localhost/kb-stand-in-base:bookworm"
_STORAGE: Final = ("buildah", "--root", str(FOLDER / "storage"), "--runroot", str(FOLDER / "run"))
# How this machine reaches the package index. Mounted for the build stages only, and in no layer.
_OF_THIS_MACHINE: Final = ("/etc/pip.conf", "/etc/ssl/certs", "/usr/share/ca-certificates")
_PULL_WITHIN_S: Final = 60


@dataclass(frozen=True, slots=True)
class BuiltImage:
    name: str
    seconds: float
    bytes_uncompressed: int
    """Size of the files of the image, with those of the base."""
    layers: Sequence[int]
    """Compressed sizes, the base first."""


def choose_base() -> str:
    """Return the real base image if a registry can be reached, otherwise the one that stands in for it."""
    try:
        _run("pull", "--quiet", "--retry", "1", REAL_BASE, timeout=_PULL_WITHIN_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return STAND_IN_BASE
    return REAL_BASE


def build(target: str, *, base: str, arguments: Mapping[str, str] | None = None) -> float:
    """Build one target of the Dockerfile, and return how many seconds that took."""
    began = monotonic()
    values = {"PYTHON_IMAGE": base, "REVISION": _revision(), **(arguments or {})}
    _run(
        *("build", "--format", "docker", "--isolation", "chroot", "--network", "host", "--layers", "--quiet"),
        *(part for name, value in values.items() for part in ("--build-arg", f"{name}={value}")),
        *(part for path in _OF_THIS_MACHINE if Path(path).exists() for part in ("--volume", f"{path}:{path}:ro")),
        *("--target", target, "--tag", f"localhost/{target}", str(ROOT)),
    )
    return monotonic() - began


def measure(name: str, *, seconds: float) -> BuiltImage:
    """Export an image as it would be pushed, and measure its layers."""
    folder = FOLDER / "pushed" / name
    folder.mkdir(parents=True, exist_ok=True)
    _run("push", "--quiet", "--compression-format", "gzip", "--format", "oci", f"localhost/{name}", f"dir:{folder}")
    manifest = json.loads((folder / "manifest.json").read_text())
    return BuiltImage(name, seconds, _uncompressed(name), [layer["size"] for layer in manifest["layers"]])


def _uncompressed(name: str) -> int:
    with mounted(name) as root:
        measured = subprocess.run(["du", "-sb", "-x", root], check=True, capture_output=True, text=True)
    return int(measured.stdout.split()[0])


def read_configuration(name: str) -> dict[str, Any]:
    """Return what the image says about itself: user, environment, entry point, health check."""
    inspected = json.loads(_run("inspect", "--type", "image", f"localhost/{name}"))
    configuration: dict[str, Any] = inspected["Docker"]["config"]
    return configuration


@contextmanager
def mounted(name: str) -> Iterator[Path]:
    """Mount the file system of an image."""
    container = _run("from", f"localhost/{name}").strip()
    try:
        yield Path(_run("mount", container).strip())
    finally:
        _run("umount", container)
        _run("rm", container)


def _revision() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _run(*arguments: str, timeout: float | None = None) -> str:
    finished = subprocess.run(
        [*_STORAGE, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "BUILDAH_ISOLATION": "chroot"},
    )
    if finished.returncode:
        # Every package that pip has found would be in it; the cause is at its end.
        (FOLDER / "build.log").write_text(finished.stdout + finished.stderr)
        raise subprocess.CalledProcessError(
            finished.returncode, f"buildah {arguments[0]}", stderr=finished.stderr[-3000:]
        )
    return finished.stdout
