"""Compares the bill of materials of an image, which lists what is installed in it, with its lock."""

import json
import re
from pathlib import Path
from typing import Final

from packaging.markers import Marker
from packaging.utils import canonicalize_name

_PINNED: Final = re.compile(r"(?m)^([A-Za-z0-9_.-]+)==([^ \\;]+)(?: ; ([^\\\n]+?))? \\?$")
_OWN: Final = re.compile(r"kb-[a-z]+")


def find_differences(sbom: Path, lock: str, *, python: str = "3.11") -> list[str]:
    """Return what is installed and not in the lock, or the other way round. The project's own packages are left out."""
    document = json.loads(sbom.read_text())
    listed = {(canonicalize_name(each["name"]), each["version"]) for each in document.get("components", [])}
    installed = {(name, version) for name, version in listed if not _OWN.fullmatch(name)}
    # Markers are those of the image: Linux, and the Python of its base.
    values = {
        "sys_platform": "linux",
        "platform_system": "Linux",
        "python_version": python,
        "python_full_version": f"{python}.0",
    }
    locked = {
        (canonicalize_name(name), version)
        for name, version, marker in _PINNED.findall(lock)
        if not marker or Marker(marker).evaluate(values)
    }
    return [
        *(f"{name} {version} is installed and not in the lock" for name, version in sorted(installed - locked)),
        *(f"{name} {version} is in the lock and not installed" for name, version in sorted(locked - installed)),
    ]
