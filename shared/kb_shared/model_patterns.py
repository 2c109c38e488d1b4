"""Decides which models a deployment allows."""

from collections.abc import Sequence
from fnmatch import fnmatchcase


def is_allowed(name: str, allowed: Sequence[str]) -> bool:
    """Decide whether a model is one of `allowed`: names, or patterns with `*`, `?` and `[...]`, as of file names."""
    return any(fnmatchcase(name, pattern) for pattern in allowed)
