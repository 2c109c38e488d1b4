"""Checks of the Dockerfile and of the locks of the images. Each finding names what is wrong."""

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import requires
from pathlib import Path
from typing import Final

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).resolve().parents[2]
ROOT_PACKAGES: Final[Mapping[str, str]] = {
    "kb-api": "kb-api",
    "kb-indexer": "kb-indexer",
    "kb-search": "kb-search",
    "kb-knowledge": "kb-knowledge",
    "kb-console": "kb-console",
    "kb-reconciler": "kb-reconciler",
    "kb-admin": "kb-reconciler[cli]",
}
"""Requirement of each image: the package that it runs, with its extras."""
_OWN: Final = frozenset(
    {
        "kb-api",
        "kb-client",
        "kb-console",
        "kb-contracts",
        "kb-indexer",
        "kb-knowledge",
        "kb-reconciler",
        "kb-search",
        "kb-shared",
    }
)
# Debian and the base image are Linux, and have the Python of the base image's tag.
_PLATFORM: Final = {"sys_platform": "linux", "platform_system": "Linux", "python_version": "3.11"}
_PINNED: Final = re.compile(r"(?m)^([A-Za-z0-9_.-]+)==([^ \\;]+)(?: ; ([^\\\n]+?))? \\?$")


def read_lock(name: str) -> str:
    return (ROOT / "images" / f"{name}.lock").read_text()


def find_lock_mistakes(image: str, lock: str, *, requirements: str) -> list[str]:
    """Return what is wrong with the lock of an image; empty if nothing is.

    Args:
        image: name of the image.
        lock: content of its lock.
        requirements: content of requirements.lock, with which the tests run.
    """
    return [*_other_versions(lock, requirements), *_without_hash(lock), *_other_packages(image, lock)]


def _other_versions(lock: str, requirements: str) -> Iterator[str]:
    tested = {(canonicalize_name(name), version, marker) for name, version, marker in _PINNED.findall(requirements)}
    tested |= {(name, version, "") for name, version, _ in tested}
    versions = {(name, version) for name, version, _ in tested}
    for name, version, _ in _PINNED.findall(lock):
        if (canonicalize_name(name), version) not in versions:
            yield f"{name}=={version} is not the version that the tests run with"


def _without_hash(lock: str) -> Iterator[str]:
    for block in re.split(r"(?m)^(?=[A-Za-z0-9])", lock):
        if block.strip() and "--hash=sha256:" not in block:
            yield f"{block.split()[0]} has no hash"


def _other_packages(image: str, lock: str) -> Iterator[str]:
    pinned: set[str] = {canonicalize_name(name) for name, _, marker in _PINNED.findall(lock) if _applies(marker)}
    needed = _closure(ROOT_PACKAGES[image])
    yield from (f"{name} is needed by nothing in {image}" for name in sorted(pinned - needed))
    yield from (f"{name} is missing" for name in sorted(needed - pinned))


def _applies(marker: str, extra: str = "") -> bool:
    return not marker or Marker(marker).evaluate({**_PLATFORM, "extra": extra})


def _closure(root: str) -> set[str]:
    """Return all that a package requires, with what that requires in turn, as the installed packages say."""
    seen: set[tuple[str, str]] = set()
    waiting = [Requirement(root)]
    while waiting:
        requirement = waiting.pop()
        name: str = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            for line in requires(name) or ():
                further = Requirement(line)
                if _applies(str(further.marker or ""), extra):
                    waiting.append(further)
    return {name for name, _ in seen} - _OWN
