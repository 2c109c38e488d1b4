"""Ids of curated knowledge: those of its documents and tags, which no upstream service may use for its own."""

import re
from collections.abc import Collection
from typing import Final

KNOWLEDGE_TAG: Final = "kb.knowledge"
"""Tag of the knowledge base that contains all entries of an organization."""
ENTRY_PREFIX: Final = "entry-"
"""Beginning of the document ids of entries."""
RESERVED_TAG_PREFIX: Final = "kb."
ENTRY_ID_PATTERN: Final = r"^[A-Za-z0-9._-]{1,100}$"


def document_id_of(entry_id: str) -> str:
    """Return the id of the document that an entry is."""
    return ENTRY_PREFIX + entry_id


def find_entry_id(document_id: str) -> str | None:
    """Return the id of the entry that a document is; None for a document of an upstream service."""
    return document_id.removeprefix(ENTRY_PREFIX) if is_reserved_document_id(document_id) else None


def is_reserved_document_id(document_id: str) -> bool:
    return document_id.startswith(ENTRY_PREFIX)


def is_entry_document_id(document_id: str) -> bool:
    """Return whether an id is that of the document of an entry, with all that such an id consists of."""
    entry_id = find_entry_id(document_id)
    return entry_id is not None and re.fullmatch(ENTRY_ID_PATTERN, entry_id) is not None


def is_reserved_tag_id(tag_id: str) -> bool:
    return tag_id.startswith(RESERVED_TAG_PREFIX)


def find_reserved_tag_ids(tag_ids: Collection[str]) -> list[str]:
    """Return those of the tags that are reserved."""
    return [tag_id for tag_id in tag_ids if is_reserved_tag_id(tag_id)]
