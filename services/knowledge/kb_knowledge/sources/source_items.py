"""Items of a source, each of which becomes an entry or, if it is long, several, and the protocols that store them."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from kb_client.files.source_digest import READER_VERSION

MAX_TEXT_CHARACTERS: Final = 200_000
"""Length of an entry. An item with a longer text is several entries."""
MAX_TITLE_CHARACTERS: Final = 300
_SHORTEST_OF_A_REQUEST: Final = 8


def _is_of_a_request(word: str) -> bool:
    """Return whether a word is such as the id of a request or a time: long and with a digit."""
    return len(word) >= _SHORTEST_OF_A_REQUEST and any(map(str.isdecimal, word))


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
        super().__init__(
            f"its content matches the pattern {pattern!r} of secrets; remove the secret at the source, or, if it is "
            "none, write the entry by hand with an override_reason"
        )
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

    @property
    def text_digest(self) -> str:
        """Return a digest that is equal for texts that say the same, whatever request or moment they name."""
        words = self.text.lower().split()
        lasting = [word for word in words if not _is_of_a_request(word)]
        return hashlib.sha256(" ".join(lasting or words).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Validators:
    """Headers by which a server recognizes that an item is unchanged and need not be sent again."""

    etag: str | None = None
    last_modified: str | None = None


@dataclass(frozen=True, slots=True)
class KnownPart:
    """Part of a long item, which has an entry of its own."""

    key: str
    entry_id: str
    digest: str
    """Digest of its title and text; empty if a run was about to create its entry."""


@dataclass(frozen=True, slots=True)
class KnownItem:
    """Item that an earlier run has stored."""

    key: str
    entry_id: str
    """Entry of the item, or of its first part."""
    digest: str
    validators: Validators = Validators()
    links: tuple[str, ...] = ()
    """Canonical addresses of the pages that it leads to, for a run in which the server does not send it again."""
    reader_version: int = READER_VERSION
    """Version of the parsers that made its text."""
    parts: tuple[KnownPart, ...] = ()
    """Parts of a long item, with the first one."""
    text_digest: str | None = None
    warnings: tuple[str, ...] = ()
    """Sentences of the parser on what is missing in its text or was guessed."""

    @property
    def text_state(self) -> str:
        """Return a value that differs from that of an item with another text."""
        return self.text_digest or self.digest

    @property
    def stored_parts(self) -> tuple[KnownPart, ...]:
        """Return the parts; of an item that is not long, the item itself."""
        return self.parts or (KnownPart(self.key, self.entry_id, self.digest),)


class SourceEntries(Protocol):
    """Stores entries of one source, through the use case that stores all entries; for a preview, keeps them."""

    def entry_id_of(self, key: str) -> str:
        """Return the id of the entry of an item or part, also before it is stored."""

    async def check(self, parts: Sequence[SourceItem]) -> None:
        """Check all parts of an item before one is stored.

        Raises:
            ItemRefused: one of them can't be stored, for example because it looks as if it contained a secret.
        """

    async def write(self, item: SourceItem) -> str:
        """Create or update the entry with the key of the item, which was checked, and return its id.

        Raises:
            ItemRefused: it can't be stored.
        """

    async def exists(self, entry_id: str) -> bool: ...

    async def delete(self, entry_id: str) -> None:
        """Delete an entry, which may be deleted already."""


class KnownItems(Protocol):
    """Items that earlier runs of one source have stored; for a preview there are none."""

    async def find(self, key: str) -> KnownItem | None: ...

    async def put(self, item: KnownItem) -> None:
        """Store an item that this run has found."""

    async def find_text_states(self) -> Mapping[str, str]:
        """Return the keys of all items, each with the state of its text."""

    async def find_entry_ids(self) -> Mapping[str, Sequence[str]]:
        """Return the keys of all items, each with the ids of its entries."""

    async def delete(self, key: str) -> None: ...
