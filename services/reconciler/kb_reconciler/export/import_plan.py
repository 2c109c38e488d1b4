"""Holds what an import is asked for, its limits, and its effects as far as they are known before the first write."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kb_reconciler.export.id_mapping import IdMapping
from kb_reconciler.export.kbx import FileConfiguration
from kb_shared.errors import KbError


class ImportRefused(KbError):
    """Import that can't be done as requested. `str()` says why, and what to do; nothing was written."""


@dataclass(frozen=True, slots=True)
class ImportRequest:
    organization_id: str
    mapping: IdMapping
    name: str | None = None
    """Name of the new KB; None: that in the file."""
    use_vectors: bool = True
    again: bool = False
    """Permission to create another KB although this file was imported before."""


@dataclass(frozen=True, slots=True)
class ImportLimits:
    """Limits of the deployment, as kb-api reads them."""

    max_knowledge_bases: int
    max_chunks_per_document: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSizes:
    """Numbers of rows that are read or written at once."""

    documents: int = 100
    text_bytes: int = 16_000_000
    vectors: int = 500


USUAL_BATCHES: Final = BatchSizes()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """Effects of an import, known before the first write."""

    imported_before: str | None
    """Id of the KB that an earlier import of this file created; then there is nothing to do."""
    configuration: FileConfiguration
    tag_ids: tuple[str, ...]
    """Tags of the new KB."""
    tag_names: Mapping[str, str | None]
    """All tags of the file, with their new ids."""
    documents_new: int
    documents_reused: int
    documents_changed: int
    chunks: int
    vectors: int
    """Number of vectors that are used."""
    spus_at_most: int
    """Number of chunks to embed and to charge; fewer if the organization has paid for some of them before."""
    embeds_sentences: bool
    """True if the chunker also embeds sentences, which are charged."""
