"""Patterns of paths with `*`, `?`, `[...]` within a name and `**` for any number of folders."""

from collections.abc import Sequence
from fnmatch import fnmatchcase


def matches_pattern(path: Sequence[str], pattern: Sequence[str]) -> bool:
    """Compare the parts of a path with the parts of a pattern."""
    # Positions in the pattern that the path can have reached: linear in both, however many `**` there are.
    reached = _with_skipped_folders({0}, pattern)
    for name in path:
        after = {
            place if pattern[place] == "**" else place + 1
            for place in reached
            if place < len(pattern) and (pattern[place] == "**" or fnmatchcase(name, pattern[place]))
        }
        reached = _with_skipped_folders(after, pattern)
    return len(pattern) in reached


def _with_skipped_folders(reached: set[int], pattern: Sequence[str]) -> set[int]:
    """Add the positions after `**`, which also stands for no folder."""
    places = set(reached)
    for place in sorted(reached):
        while place < len(pattern) and pattern[place] == "**":
            place += 1  # noqa: PLW2901  # the loop goes on from here
            places.add(place)
    return places
