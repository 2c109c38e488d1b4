"""All kinds of drift. `docs/reference/drift.md` describes them."""

from typing import Final

from kb_reconciler.drift.incomplete import INCOMPLETE
from kb_reconciler.drift.kinds import DocumentDrift, DriftKind, KnowledgeBaseDrift, LeftoverDrift
from kb_reconciler.drift.missing import MISSING
from kb_reconciler.drift.orphan_vectors import ORPHAN_VECTORS
from kb_reconciler.drift.stale import STALE
from kb_reconciler.drift.stale_snapshot import STALE_SNAPSHOT
from kb_reconciler.drift.stale_text import STALE_TEXT
from kb_reconciler.drift.wrong_config import WRONG_CONFIG
from kb_reconciler.drift.wrong_totals import WRONG_TOTALS
from kb_reconciler.drift.zombie_collection import ZOMBIE_COLLECTION
from kb_reconciler.drift.zombie_rows import ZOMBIE_ROWS

DOCUMENT_DRIFT: Final[tuple[DocumentDrift, ...]] = (
    STALE,
    MISSING,
    WRONG_CONFIG,
    STALE_TEXT,
    STALE_SNAPSHOT,
    ORPHAN_VECTORS,
    INCOMPLETE,
)
"""Kinds in the order in which their conditions are tried: one document has at most one kind of each comparison."""

KNOWLEDGE_BASE_DRIFT: Final[tuple[KnowledgeBaseDrift, ...]] = (WRONG_TOTALS,)

LEFTOVER_DRIFT: Final[tuple[LeftoverDrift, ...]] = (ZOMBIE_COLLECTION, ZOMBIE_ROWS)

DRIFT_OF_KBS: Final[tuple[DriftKind, ...]] = (*DOCUMENT_DRIFT, *KNOWLEDGE_BASE_DRIFT)
"""Kinds that a pass looks for in each KB."""
NAMES: Final = tuple(kind.name for kind in (*DRIFT_OF_KBS, *LEFTOVER_DRIFT))
