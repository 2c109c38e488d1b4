"""All kinds of drift. `docs/reference/drift.md` describes them."""

from collections.abc import Collection
from typing import Final

from kb_reconciler.drift.bad_vector import BAD_VECTOR
from kb_reconciler.drift.failed_kb import FAILED_KB
from kb_reconciler.drift.incomplete import INCOMPLETE
from kb_reconciler.drift.kinds import (
    Comparison,
    DeploymentDrift,
    DocumentDrift,
    DriftKind,
    KnowledgeBaseDrift,
    LeftoverDrift,
)
from kb_reconciler.drift.missing import MISSING
from kb_reconciler.drift.missing_embedding import MISSING_EMBEDDING
from kb_reconciler.drift.orphan_vectors import ORPHAN_VECTORS
from kb_reconciler.drift.search_index import SEARCH_INDEX
from kb_reconciler.drift.spent_differs import SPENT_DIFFERS
from kb_reconciler.drift.stale import STALE
from kb_reconciler.drift.stale_snapshot import STALE_SNAPSHOT
from kb_reconciler.drift.stale_text import STALE_TEXT
from kb_reconciler.drift.stuck_backfill import STUCK_BACKFILL
from kb_reconciler.drift.stuck_job import STUCK_JOB
from kb_reconciler.drift.stuck_life_cycle import STUCK_LIFE_CYCLE
from kb_reconciler.drift.stuck_outbox import STUCK_OUTBOX
from kb_reconciler.drift.unreferenced_text import UNREFERENCED_TEXT
from kb_reconciler.drift.wrong_config import WRONG_CONFIG
from kb_reconciler.drift.wrong_totals import WRONG_TOTALS
from kb_reconciler.drift.zombie_collection import ZOMBIE_COLLECTION
from kb_reconciler.drift.zombie_rows import ZOMBIE_ROWS

DOCUMENT_DRIFT: Final[tuple[DocumentDrift, ...]] = (
    # Repaired first: the repairs of the others use the embedding cache.
    MISSING_EMBEDDING,
    STALE,
    MISSING,
    WRONG_CONFIG,
    STALE_TEXT,
    STALE_SNAPSHOT,
    ORPHAN_VECTORS,
    INCOMPLETE,
    BAD_VECTOR,
)
"""Kinds in the order in which their conditions are tried and in which they are repaired."""

KNOWLEDGE_BASE_DRIFT: Final[tuple[KnowledgeBaseDrift, ...]] = (SEARCH_INDEX, WRONG_TOTALS)

DEPLOYMENT_DRIFT: Final[tuple[DeploymentDrift, ...]] = (
    STUCK_JOB,
    STUCK_BACKFILL,
    STUCK_OUTBOX,
    STUCK_LIFE_CYCLE,
    FAILED_KB,
    SPENT_DIFFERS,
)

LEFTOVER_DRIFT: Final[tuple[LeftoverDrift, ...]] = (ZOMBIE_COLLECTION, ZOMBIE_ROWS)


def find_kinds(comparisons: Collection[Comparison]) -> list[DriftKind]:
    """Return the kinds of KBs and their documents that `comparisons` find. Those of KBs belong to that of chunks."""
    of_documents = [kind for kind in DOCUMENT_DRIFT if kind.comparison in comparisons]
    return [*of_documents, *(KNOWLEDGE_BASE_DRIFT if Comparison.CHUNKS in comparisons else ())]


NAMES: Final = (
    *(kind.name for kind in find_kinds(frozenset(Comparison))),
    *(kind.name for kind in DEPLOYMENT_DRIFT),
    *(kind.name for kind in LEFTOVER_DRIFT),
    UNREFERENCED_TEXT,
)
