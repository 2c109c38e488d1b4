"""Form of a kind of drift: what finds it and what repairs it."""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias

from kb_shared.messaging.index_requests import IndexRequests
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase


class Comparison(StrEnum):
    """Queries that compare collections on the server. Each finds several kinds at once."""

    MEMBERSHIP = "membership"
    """Comparison of the rows of `document_index` with `documents`."""
    CHUNKS = "chunks"
    """Comparison of the rows of `document_index` with the chunks. Reads an index of the chunks."""
    VECTORS = "vectors"
    """Comparison of the vectors of the chunks with what was stored, and with the embedding cache. Reads all chunks."""


@dataclass(frozen=True, slots=True)
class RepairTools:
    """Connections that repairs use."""

    database: Database
    requests: IndexRequests


RepairFunction: TypeAlias = Callable[[RepairTools, KnowledgeBase, Sequence[str]], Awaitable[int]]
"""Function that repairs documents of a KB, given by their ids, and returns how many it repaired or queued."""


class DriftKind(Protocol):
    """Any kind of drift."""

    @property
    def name(self) -> str:
        """Return the label of its metrics."""


@dataclass(frozen=True, slots=True)
class DocumentDrift:
    """A way in which a document of a KB can differ from what it should be."""

    name: str
    comparison: Comparison
    condition: Callable[[KnowledgeBase], Row] | None
    """Function that builds the condition on a compared document. The first kind whose condition holds applies.

    None: MongoDB can't decide it, and the comparison has code for it.
    """
    repair: RepairFunction
    opens_jobs: bool = True
    """True if the repair opens a job for each document: a KB gets a limited number of them."""
    removes: bool = False
    """True if the repair takes the document, or chunks of it, out of the KB: the brake counts such repairs."""


@dataclass(frozen=True, slots=True)
class KnowledgeBaseDrift:
    """A way in which a KB as a whole can differ from what it should be. Full passes look for it."""

    name: str
    detect: Callable[[Database, KnowledgeBase], Awaitable[bool]]
    repair: Callable[[Database, KnowledgeBase], Awaitable[bool]]
    """Function that repairs it; returns False if it has changed meanwhile, and the next pass tries again."""


@dataclass(frozen=True, slots=True)
class DeploymentDrift:
    """A way in which rows that belong to no document can differ from what they should be."""

    name: str
    find: Callable[[Database], Awaitable[Sequence[Hashable]]]
    """Function that finds the rows; what identifies them depends on the kind."""
    repair: Callable[[Database, Any], Awaitable[bool]]
    """Function that repairs one row; returns False if it has changed meanwhile or can't be repaired now."""
    in_every_pass: bool = True
    """False: only full passes look for it, because that reads many rows."""


@dataclass(frozen=True, slots=True)
class LeftoverDrift:
    """Data of a KB that no longer exists. It is deleted only when it was found for the length of a grace period."""

    name: str
    find: Callable[[Database], Awaitable[set[str]]]
    """Function that returns the ids of the KBs."""
    delete: Callable[[Database, str], Awaitable[None]]


HAS_ROW: Final[Row] = {"$ne": ["$row", None]}
"""Condition: `document_index` has a row of the document."""
HAS_NO_ROW: Final[Row] = {"$eq": ["$row", None]}
HAS_DOCUMENT: Final[Row] = {"$ne": ["$document", None]}
"""Condition: the document has a tag of the KB. It may still wait for its text, and is `alive` once it has one."""
