"""Decides whether entries of items that are gone from a source are deleted."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

MAX_SHARE: Final = 0.3
"""Part of a source's entries that a run may delete."""
ALWAYS_ALLOWED: Final = 10
"""Number of entries that a run may delete whatever part they are."""


@dataclass(frozen=True, slots=True)
class Removals:
    keys: tuple[str, ...]
    """Keys of the items whose entries are deleted."""
    withheld: int = 0
    """Number of entries that stay although their items are gone, because they are too many."""


def removals(known: Collection[str], seen: Collection[str], *, moved: Collection[str] = ()) -> Removals:
    """Decide what is deleted at the end of a run that has read all of the source.

    Args:
        known: keys of all entries of the source.
        seen: keys that the run has found, or asked for without learning that they are gone.
        moved: keys whose texts the run has found under other keys. Nothing is lost with them.
    """
    gone = set(known) - set(seen)
    lost = gone - set(moved)
    if len(lost) > ALWAYS_ALLOWED and len(lost) > MAX_SHARE * len(known):
        return Removals(tuple(sorted(gone - lost)), withheld=len(lost))
    return Removals(tuple(sorted(gone)))
