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


def removals(known: Collection[str], seen: Collection[str], *, run_is_ok: bool) -> Removals:
    """Decide what is deleted at the end of a run.

    Args:
        known: keys of all entries of the source.
        seen: keys that the run has found.
        run_is_ok: whether the run has read all of the source. If not, an item may only seem to be gone.
    """
    if not run_is_ok:
        return Removals(())
    gone = tuple(sorted(set(known) - set(seen)))
    if len(gone) > ALWAYS_ALLOWED and len(gone) > MAX_SHARE * len(known):
        return Removals((), withheld=len(gone))
    return Removals(gone)
