"""One check for each operation of the OpenAPI document: its answer to a client, compared with what MongoDB holds.

An import of the package registers all checks.
"""

from tests.e2e.operations import (
    administration,
    authoring,
    check_ins,
    curated_knowledge,
    dead_letters,
    documents,
    entities_and_graph,
    events,
    indexing_jobs,
    knowledge_bases,
    knowledge_entries,
    knowledge_sources,
    models_and_spending,
    operating,
    reconciliation,
    runs,
    searches,
)

__all__ = [
    "administration",
    "authoring",
    "check_ins",
    "curated_knowledge",
    "dead_letters",
    "documents",
    "entities_and_graph",
    "events",
    "indexing_jobs",
    "knowledge_bases",
    "knowledge_entries",
    "knowledge_sources",
    "models_and_spending",
    "operating",
    "reconciliation",
    "runs",
    "searches",
]
