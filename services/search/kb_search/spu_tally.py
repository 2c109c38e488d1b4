"""What the searches of somebody have been charged, also those that fail or are given up after that."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class SpuTally:
    around: "SpuTally | None"
    spus: int = 0


_tally: ContextVar[SpuTally | None] = ContextVar("spu_tally", default=None)


@contextmanager
def tallied() -> Iterator[SpuTally]:
    """Count what is charged inside, in this task and those that it starts; tallies around it count it, too."""
    tally = SpuTally(_tally.get())
    token = _tally.set(tally)
    try:
        yield tally
    finally:
        _tally.reset(token)


def note_charged(spus: int) -> None:
    tally = _tally.get()
    while tally is not None:
        tally.spus += spus
        tally = tally.around
