"""Decides which collections a backup has, and which rows of them belong to an organization or a KB.

Every collection of the deployment is in one of three groups:

- rows of one KB, which are read at the same cluster time as its chunks (`OF_KNOWLEDGE_BASES`);
- rows that are read on their own (`SHARED`), in an order in which a row never refers to one that was read before it and
  that may be missing there;
- what would harm, or is of no use, in a restored deployment (`LEFT_OUT`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kb_shared.mongo import (
    backfills,
    document_index,
    document_texts,
    documents,
    index_jobs,
    kb_slots,
    knowledge_bases,
    schema_version,
)
from kb_shared.mongo.database import Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase

TEXT_FILES: Final = f"{document_texts.NAME}.files"
TEXT_FILE_CHUNKS: Final = f"{document_texts.NAME}.chunks"
SOURCE_FILES: Final = "source_files.files"
SOURCE_FILE_CHUNKS: Final = "source_files.chunks"
MARKER: Final = "kb_restore"
"""Collection with the one row that says how far a restore is. A finished restore drops it."""

OF_KNOWLEDGE_BASES: Final = (
    knowledge_bases.NAME,
    kb_slots.NAME,
    document_index.NAME,
    index_jobs.NAME,
    backfills.NAME,
)

LEFT_OUT: Final[Mapping[str, str]] = {
    "events": "their readers know positions of the deployment that was backed up, which are refused after a restore",
    "event_positions": "they belong to the events",
    "idempotency_keys": "requests are repeated within a day, and what they name may be missing",
    "leases": "processes that no longer exist hold them",
    "rate_limits": "they are about the last minutes",
    "circuits": "they are about the last minutes, and an open one would stop the calls of a provider that works",
    "reconcile_plans": "their repairs were meant for another state, and an approved plan would remove documents",
    "reconcile_repairs": "they belong to the plans",
    "reconcile_passes": "they are about another state",
    "reconciler_state": "nothing of a restored database was compared yet",
    "crawl_frontier": "it is about runs of sources that no runner continues after a restore",
    "source_runs": "no runner continues those that have not ended, and a source that has one can't be run",
    "webhook_deliveries": "receivers have had most of these events, and would get them again",
    MARKER: "it is about the restore of this database",
}
"""Collections that no backup has, each with the reason."""


@dataclass(frozen=True, slots=True)
class RowCondition:
    """Condition on one field of a row, as a query and as a function."""

    field: str
    values: tuple[Any, ...] = ()
    """Values of which the field has one; of a list, one of its elements."""
    prefix: str | None = None
    """Text that the field, a string, may begin with instead."""

    def query(self) -> Row:
        """Return the condition as a query."""
        among: Row = {self.field: {"$in": list(self.values)}}
        if self.prefix is None:
            return among
        # "0" follows "/".
        assert self.prefix.endswith("/")
        beginning: Row = {self.field: {"$gte": self.prefix, "$lt": f"{self.prefix[:-1]}0"}}
        return {"$or": [among, beginning]} if self.values else beginning

    def admits(self, row: Mapping[str, Any]) -> bool:
        """Return whether the row meets the condition."""
        value = row.get(self.field)
        if isinstance(value, list):
            return any(each in self.values for each in value)
        if self.prefix is not None and isinstance(value, str) and value.startswith(self.prefix):
            return True
        return value in self.values


@dataclass(frozen=True, slots=True)
class Matching:
    """Rows that meet all conditions."""

    conditions: tuple[RowCondition, ...]

    def query(self) -> Row:
        return {"$and": [each.query() for each in self.conditions]} if self.conditions else {}

    def admits(self, row: Mapping[str, Any]) -> bool:
        return all(each.admits(row) for each in self.conditions)


@dataclass(frozen=True, slots=True)
class ParentKey:
    """Indexed field of a parent by which it is found: it has `prefix`, then the value of the row that refers to it."""

    field: str
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Referenced:
    """Rows whose `field` is the `parent_field` of a row of `parent` that is in the scope, too."""

    field: str
    parent: str
    parent_field: str
    within: Matching = Matching(())
    """Conditions that the rows meet as well, and that an index needs."""
    found_by: ParentKey | None = None
    """Key of a parent, where no index of `parent_field` finds it."""

    @property
    def parent_key(self) -> ParentKey:
        return self.found_by or ParentKey(self.parent_field)


Selection: TypeAlias = Matching | Referenced
EVERYTHING: Final = Matching(())


@dataclass(frozen=True, slots=True)
class BackupScope:
    """Part of a deployment: all of it, one organization, or one KB."""

    organization_id: str | None = None
    kb_id: str | None = None

    @property
    def is_whole(self) -> bool:
        return self.organization_id is None and self.kb_id is None

    def covers(self, other: "BackupScope") -> bool:
        """Return whether a backup of this scope may contain what `other` asks for."""
        same_kb = self.kb_id is None or self.kb_id == other.kb_id
        # The organization of a KB is in the row of the KB.
        is_known = self.organization_id is None or other.organization_id in (self.organization_id, None)
        return same_kb and is_known and not (other.is_whole and not self.is_whole)

    def __str__(self) -> str:
        if self.kb_id is not None:
            return f"knowledge base {self.kb_id}"
        return "the whole deployment" if self.organization_id is None else f"organization {self.organization_id}"


def select_knowledge_bases(scope: BackupScope) -> Matching:
    """Return the rows of `knowledge_bases` in the scope."""
    conditions = []
    if scope.organization_id is not None:
        conditions.append(RowCondition("organization_id", (scope.organization_id,)))
    if scope.kb_id is not None:
        conditions.append(RowCondition("_id", (scope.kb_id,)))
    return Matching(tuple(conditions))


def select_of_knowledge_base(collection: str, kb: KnowledgeBase) -> Matching:
    """Return the rows of one of `OF_KNOWLEDGE_BASES`, or of the KB's chunks, that belong to a KB."""
    identity = "_id" if collection == knowledge_bases.NAME else "kb_id"
    return Matching((RowCondition("organization_id", (kb.organization_id,)), RowCondition(identity, (kb.kb_id,))))


def _match_organization(organization_id: str, field: str = "organization_id") -> Matching:
    return Matching((RowCondition(field, (organization_id,)),))


_BY_ORGANIZATION: Final = (
    documents.NAME,
    "document_revisions",
    "tags",
    document_texts.NAME,
    "spu_ledger",
    "budgets",
    "llm_providers",
    "webhooks",
    "provider_pauses",
    "pushed_folders",
    "api_keys",
    "audit_log",
    "organization_deletions",
    "prompts",
    "agents",
    "threads",
    "runs",
    "query_log",
    "citations",
    "knowledge_entries",
    "knowledge_entry_tombstones",
    "knowledge_sources",
    "mcp_servers",
    "source_items",
    "dead_letters",
    "dead_letter_bodies",
    "check_ins",
    "entities",
    "graph_edges",
    "graph_nodes",
)
"""Collections whose rows name their organization."""

FIRST: Final = (schema_version.NAME, documents.NAME, "document_revisions", "tags")
"""Collections that are read before the KBs. Texts and vectors are read after what refers to them: they are immutable,
and are deleted only long after nothing refers to them."""
LAST: Final = (
    document_texts.NAME,
    TEXT_FILES,
    TEXT_FILE_CHUNKS,
    "embedding_cache",
    # After the cache: a vector without its charge would be one that was given away.
    "spu_ledger",
    "budgets",
    # Before the outbox, which then has the events of all of them.
    "knowledge_entries",
    "knowledge_entry_tombstones",
    # After the entries: an item whose entry is missing would not be read again.
    "source_items",
    "knowledge_sources",
    SOURCE_FILES,
    SOURCE_FILE_CHUNKS,
    "mcp_servers",
    "outbox",
    "organizations",
    "llm_providers",
    "webhooks",
    "provider_pauses",
    "pushed_folders",
    "api_keys",
    "audit_log",
    "organization_deletions",
    "prompts",
    "agents",
    "threads",
    "runs",
    "query_log",
    "citations",
    "dead_letters",
    "dead_letter_bodies",
    "check_ins",
    "entities",
    # Before the nodes: an edge never lacks one of its nodes.
    "graph_edges",
    "graph_nodes",
)
SHARED: Final = FIRST + LAST


def select_shared(collection: str, scope: BackupScope, kb: KnowledgeBase | None = None) -> Selection | None:
    """Return the rows of a collection that belong to the scope; None if none does.

    Args:
        collection: one of `SHARED`, or one that this version does not know.
        scope: the part of the deployment.
        kb: the KB of the scope, if it is one KB.
    """
    # Rows of a part of the deployment have its version, too.
    if scope.is_whole or collection == schema_version.NAME:
        return EVERYTHING
    if kb is not None:
        return _select_of_kb(collection, kb)
    assert scope.organization_id is not None
    return _select_of_organization(collection, scope.organization_id)


def _select_of_organization(collection: str, organization_id: str) -> Selection | None:
    if collection in _BY_ORGANIZATION:
        return _match_organization(organization_id)
    prefix = f"{organization_id}/"
    others: dict[str, Selection] = {
        "embedding_cache": _match_organization(organization_id, "scope"),
        "organizations": _match_organization(organization_id, "_id"),
        # Messages have no organization but in their key: `{organization}` or `{organization}/...`.
        "outbox": Matching((RowCondition("key", (organization_id,), prefix=prefix),)),
        TEXT_FILES: Matching((RowCondition("filename", prefix=prefix),)),
        TEXT_FILE_CHUNKS: Referenced("files_id", TEXT_FILES, "_id"),
        SOURCE_FILES: Matching((RowCondition("_id", prefix=prefix),)),
        SOURCE_FILE_CHUNKS: Matching((RowCondition("files_id", prefix=prefix),)),
    }
    return others.get(collection)


def _select_of_kb(collection: str, kb: KnowledgeBase) -> Selection | None:
    mine = RowCondition("organization_id", (kb.organization_id,))
    selections: dict[str, Selection] = {
        documents.NAME: Matching((mine, RowCondition("tag_ids", kb.tag_ids))),
        "tags": Matching((mine, RowCondition("tag_id", kb.tag_ids))),
        "spu_ledger": Matching((mine, RowCondition("kb_id", (kb.kb_id,)))),
        "document_revisions": Referenced("_id", documents.NAME, "_id", within=Matching((mine,))),
        document_texts.NAME: Referenced(
            "document_id",
            documents.NAME,
            "document_id",
            within=Matching((mine,)),
            found_by=ParentKey("_id", f"{kb.organization_id}/"),
        ),
        TEXT_FILES: Referenced("_id", document_texts.NAME, "file_id"),
        TEXT_FILE_CHUNKS: Referenced("files_id", TEXT_FILES, "_id"),
    }
    return selections.get(collection)
