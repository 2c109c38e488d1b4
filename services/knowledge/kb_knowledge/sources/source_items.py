"""Items of a source, each of which becomes an entry, and the protocol that stores them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from kb_client.files.source_digest import READER_VERSION

MAX_TEXT_CHARACTERS: Final = 200_000
MAX_TITLE_CHARACTERS: Final = 300


class ItemOutcome(StrEnum):
    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    """It is no text, or is not meant to be read."""
    FAILED = "failed"
    GONE = "gone"
    """The server says that it does not exist any more."""
    REDIRECTED = "redirected"
    """It is another item, which has an outcome of its own."""


IN_THE_SOURCE: Final = frozenset({ItemOutcome.CREATED, ItemOutcome.UPDATED, ItemOutcome.UNCHANGED, ItemOutcome.FAILED})
"""Outcomes of items that the source still has."""


class ItemRefused(Exception):
    """An item that can't be stored. The message is for users and quotes nothing of it."""


class ContentRefused(ItemRefused):
    """A text that looks as if it contained a secret. `pattern` is the name of what it looks like, never the text."""

    def __init__(self, pattern: str) -> None:
        super().__init__(f"its content matches the pattern {pattern!r} of secrets; remove the secret at the source")
        self.pattern = pattern


@dataclass(frozen=True, slots=True)
class SourceItem:
    key: str
    """Identifies the item in its source."""
    title: str
    text: str
    url: str | None = None

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.title}\0{self.text}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Validators:
    """Headers by which a server recognizes that an item is unchanged and need not be sent again."""

    etag: str | None = None
    last_modified: str | None = None


@dataclass(frozen=True, slots=True)
class KnownItem:
    """Item that an earlier run has stored."""

    key: str
    entry_id: str
    digest: str
    validators: Validators = Validators()
    links: tuple[str, ...] = ()
    """Canonical addresses of the pages that it leads to, for a run in which the server does not send it again."""
    reader_version: int = READER_VERSION
    """Version of the parsers that made its text."""


class SourceEntries(Protocol):
    """Stores entries of one source, through the use case that stores all entries; for a preview, keeps them."""

    async def write(self, item: SourceItem) -> str:
        """Create or update the entry with the key of the item and return its id.

        Raises:
            ItemRefused: it can't be stored, for example because it looks as if it contained a secret.
        """

    async def delete(self, entry_id: str) -> None:
        """Delete an entry, which may be deleted already."""


class KnownItems(Protocol):
    """Items that earlier runs of one source have stored; for a preview there are none."""

    async def find(self, key: str) -> KnownItem | None: ...

    async def put(self, item: KnownItem) -> None:
        """Store an item that this run has found."""

    async def find_keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys of all items, each with the id of its entry."""

    async def delete(self, key: str) -> None: ...
