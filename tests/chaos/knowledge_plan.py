"""What people do to entries and sources in a run of chaos, what changes on the web, and when runners die. Pure.

As in `plan`, a seed keeps its meaning only while this module stays as it is.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kb_shared.failpoints import OF_SOURCES
from tests.chaos.workload import paragraph

WATCHED_ENTRY: Final = "watched"
"""Entry that readers look at all the time."""
PAGES: Final = 6
"""Number of pages of the web site beside the first one."""
_ENTRIES_A_SECOND: Final = 0.4
_MAX_PARAGRAPHS: Final = 4


@dataclass(frozen=True, slots=True)
class WriteEntry:
    """An entry is created, or changed if there is one."""

    at_s: float
    entry_id: str
    paragraphs: tuple[str, ...]
    tags: tuple[str, ...]
    embedding_text: str | None
    """None: none, also if there was one."""


@dataclass(frozen=True, slots=True)
class DeleteEntry:
    at_s: float
    entry_id: str


@dataclass(frozen=True, slots=True)
class ReviseWatchedEntry:
    """The next text of the entry that is watched."""

    at_s: float


@dataclass(frozen=True, slots=True)
class ChangeSite:
    """A page of the web site has another text, vanishes, or is there again."""

    at_s: float
    page: int
    text: str
    is_gone: bool


@dataclass(frozen=True, slots=True)
class RunSource:
    """Someone asks for a run of the source, which may have one already."""

    at_s: float


EntryChange = WriteEntry | DeleteEntry | ReviseWatchedEntry
SourceChange = ChangeSite | RunSource


@dataclass(frozen=True, slots=True)
class KillRunner:
    """SIGKILL of the runner of sources, which comes back at `until_s`."""

    at_s: float
    until_s: float
    failpoint: str | None
    """Failpoint at which it dies if it gets there; None: it dies at once."""
    nth: int = 1


def changes_of_entries(dice: random.Random, seconds: float, tags: Sequence[str]) -> Iterator[EntryChange]:
    for number in range(max(3, int(seconds * _ENTRIES_A_SECOND))):
        yield from _life_of_entry(dice, seconds, f"e-{number:03}", tags)
    at_s = dice.uniform(0, 1)
    while at_s < seconds:
        yield ReviseWatchedEntry(at_s)
        at_s += dice.uniform(0.5, 1.5)


def _life_of_entry(
    dice: random.Random, seconds: float, entry_id: str, tags: Sequence[str]
) -> Iterator[WriteEntry | DeleteEntry]:
    """Yield what happens to one entry, which may come back after its deletion."""
    written: list[str] = []
    embedding_text: str | None = None
    for number, at_s in enumerate(sorted(dice.uniform(0, seconds) for _ in range(dice.randint(1, 5)))):
        if written and dice.random() < 0.25:
            yield DeleteEntry(at_s, entry_id)
            written, embedding_text = [], None
            continue
        # What stays of the former text must not be paid for again, and keeps its citations.
        kept = [each for each in written if dice.random() < 0.7][: _MAX_PARAGRAPHS - 1]
        written = [*kept, paragraph(f"{entry_id} {number}")]
        # It stays with another content, changes, or goes: then each paragraph is a chunk again.
        if dice.random() < 0.5:
            embedding_text = dice.choice((None, f"What about {entry_id}? {number}"))
        entry_tags = tuple(tag for tag in tags if dice.random() < 0.3)
        yield WriteEntry(at_s, entry_id, tuple(written), entry_tags, embedding_text)


def changes_of_source(dice: random.Random, seconds: float) -> Iterator[SourceChange]:
    at_s = dice.uniform(0, 1)
    while at_s < seconds:
        yield RunSource(at_s)
        for _ in range(dice.randint(0, 3)):
            changed_at_s = min(at_s + dice.uniform(0, 3), seconds)
            text = paragraph(f"page {changed_at_s}")
            yield ChangeSite(changed_at_s, dice.randrange(PAGES), text, dice.random() < 0.3)
        at_s += dice.uniform(1, 5)


def kills_of_runner(dice: random.Random, seconds: float) -> Iterator[KillRunner]:
    at_s = dice.uniform(0.5, 3)
    while at_s < seconds - 1:
        until_s = min(at_s + dice.uniform(0.3, 3), seconds)
        failpoint = dice.choice(OF_SOURCES) if dice.random() < 0.7 else None
        yield KillRunner(at_s, until_s, failpoint, dice.randint(1, 3))
        at_s = until_s + dice.uniform(0.5, 5)
