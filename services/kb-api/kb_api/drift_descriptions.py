"""Descriptions of the kinds of drift, for people. The reconciler detects and repairs them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_COMMAND: Final = "command to the indexer"


@dataclass(frozen=True, slots=True)
class DriftDescription:
    """Problem and its repair."""

    problem: str
    repair: str


DESCRIPTIONS: Final[Mapping[str, DriftDescription]] = {
    "missing": DriftDescription(
        "a document has a tag of the KB, but no row in `document_index` and no job",
        _COMMAND,
    ),
    "stale": DriftDescription(
        "a document is indexed, but was deleted or has no tag of the KB any more",
        "command to the indexer, which removes it",
    ),
    "wrong_config": DriftDescription(
        "a document was indexed with another chunker or embedding model than the KB has, or was not checked for "
        "credentials since the KB refuses them",
        _COMMAND,
    ),
    "stale_text": DriftDescription(
        "another text of the document is indexed, or the same text under another revision",
        _COMMAND,
    ),
    "stale_snapshot": DriftDescription(
        "the chunks of a document carry another name, other tags or other metadata than the document has",
        _COMMAND,
    ),
    "orphan_vectors": DriftDescription(
        "chunks of a document that has no row in `document_index`",
        "deleted in a transaction that a swap of the document conflicts with",
    ),
    "incomplete": DriftDescription(
        "live chunks of a document are missing, superfluous or in another order than they were indexed",
        "command to the indexer, with `force`",
    ),
    "missing_embedding": DriftDescription(
        "the embedding cache lacks the vector of a live chunk",
        "stored in the cache from the KB's own vector, free of charge; damaged documents are indexed again",
    ),
    "bad_vector": DriftDescription(
        "the vector of a live chunk has the wrong type or length, is zero, or is not the one that was stored",
        "command to the indexer, with `force`: taken from the cache, else embedded again (1 SPU a chunk)",
    ),
    "wrong_totals": DriftDescription(
        "the numbers of documents and chunks in the KB slots differ from the rows in `document_index`",
        "set, on the condition that no swap has written the slot meanwhile",
    ),
    "search_index": DriftDescription(
        "a search index of an active KB is missing, has another definition than needed, has failed, or is behind",
        "created or updated while searches go on; one that failed is dropped first; one that is behind is reported",
    ),
    "failed_kb": DriftDescription(
        "a KB is in `error`",
        "its life cycle continues with new search indexes, with pauses from 5 minutes to a day",
    ),
    "stuck_job": DriftDescription(
        "a job is due for 10 minutes and no indexer takes it, or its lease ends in more than a day",
        "made due without a lease",
    ),
    "stuck_backfill": DriftDescription(
        "no indexer continues a backfill for 10 minutes, or its lease ends in more than a day",
        "released for another indexer",
    ),
    "stuck_outbox": DriftDescription(
        "messages of the outbox are unsent for 10 minutes, and no relay has the lease of their bucket",
        "a lease that has expired, or that ends in more than a day, is released; otherwise only reported",
    ),
    "stuck_life_cycle": DriftDescription(
        "a KB is being created, built or deleted for an hour, and no kb-api has its lease",
        "a lease that has expired, or that ends in more than a day, is released; otherwise only reported",
    ),
    "spent_differs": DriftDescription(
        "the spending of this month in `budgets` differs from the ledger",
        "set from the ledger, unless something is reserved",
    ),
    "unreferenced_text": DriftDescription(
        "no document refers to a text that was stored more than a day ago",
        "deleted",
    ),
    "zombie_collection": DriftDescription(
        "a collection of chunks whose KB does not exist",
        "dropped, 12 hours after a full pass has found it first",
    ),
    "zombie_rows": DriftDescription(
        "rows of `document_index`, `index_jobs`, `backfills` or `kb_slots` whose KB does not exist",
        "deleted, 12 hours after a full pass has found them first",
    ),
}
