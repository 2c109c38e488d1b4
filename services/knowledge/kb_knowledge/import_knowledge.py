"""Imports a document with entities, pieces and a graph. An item that can't be stored is skipped with the reason.

What is stored as the document has it is left alone. So an import that is repeated, also after a crash in its middle,
writes only what is left to do.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel

from kb_contracts.api.knowledge_imports import ImportCounts, ImportReport
from kb_contracts.knowledge.entities import Entity
from kb_contracts.knowledge.graph import GraphEdge, GraphNode
from kb_contracts.knowledge.import_document import (
    MAX_IMPORT_ITEMS,
    ImportItem,
    SkippedItem,
    count_items,
    missing_nodes,
)
from kb_knowledge.read_checked_import import read_checked_import
from kb_knowledge.settings import KnowledgeSettings
from kb_knowledge.write_entries import EntryWriter
from kb_knowledge.write_pieces import PieceWriter
from kb_shared.concurrency.shared_thread import SharedThread
from kb_shared.errors import RequestError
from kb_shared.http.authentication import Caller
from kb_shared.mongo import entities, knowledge_entries, knowledge_graph
from kb_shared.mongo.database import Database
from kb_shared.mongo.put_outcome import PutOutcome
from kb_shared.observability.metrics import IMPORT_ITEMS

M = TypeVar("M", bound=BaseModel)

MAX_IMPORT_BYTES: Final = 20_000_000
IN_PARTS: Final = (
    f"Import it in parts, each of at most {MAX_IMPORT_ITEMS:,} items and {MAX_IMPORT_BYTES // 1_000_000} MB, with "
    "nodes before their edges."
)
_ITEMS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part(Generic[M]):
    """Shows how the items of a section are stored."""

    identify: Callable[[M], str]
    """Returns the id of an item in an outcome."""
    compare: Callable[[Sequence[M]], Awaitable[PutOutcome]]
    put: Callable[[Sequence[M]], Awaitable[PutOutcome]]
    count: Callable[[], Awaitable[int]]
    limit: int
    """Greatest number of the organization; 0: no limit."""
    setting: str


@dataclass(slots=True)
class _Loaded:
    loaded: int = 0
    changed: int = 0
    created_ids: set[str] = field(default_factory=set)


class KnowledgeImporter:
    """Imports documents for all organizations."""

    def __init__(self, database: Database, writer: EntryWriter, settings: KnowledgeSettings) -> None:
        self._database = database
        self._writer = writer
        self._settings = settings

    async def import_document(
        self, caller: Caller, document: Mapping[str, Any], *, dry_run: bool, thread: SharedThread
    ) -> ImportReport:
        """Store what is valid in a document.

        Args:
            caller: whose knowledge it is.
            document: has up to 10,000 items.
            dry_run: only find out what would happen.
            thread: runs what needs much CPU.

        Raises:
            RequestError: 413 `body-too-large`: there are more items.
        """
        if (items := count_items(document)) > MAX_IMPORT_ITEMS:
            raise RequestError(413, "body-too-large", f"The document has {items:,} items. {IN_PARTS}")
        read = await thread.work(caller.organization_id, partial(read_checked_import, document))
        skipped = list(read.skipped)
        load = partial(_load, skipped=skipped, dry_run=dry_run)
        entity_counts = await load(self._entities(caller), read.entities)
        node_counts = await load(self._nodes(caller), read.nodes)
        # Before the edges, so that the piece that an edge is linked to exists.
        piece_counts = await load(self._pieces(caller), read.pieces)
        edge_counts = await load(self._edges(caller, new_nodes=node_counts.created_ids), read.edges)
        if not dry_run:
            _count_items([entity_counts, node_counts, piece_counts, edge_counts], skipped=len(skipped))
        return ImportReport(
            dry_run=dry_run,
            loaded=ImportCounts(
                metadata=entity_counts.loaded,
                pieces=piece_counts.loaded,
                nodes=node_counts.loaded,
                edges=edge_counts.loaded,
            ),
            changed=ImportCounts(
                metadata=entity_counts.changed,
                pieces=piece_counts.changed,
                nodes=node_counts.changed,
                edges=edge_counts.changed,
            ),
            skipped=skipped,
        )

    def _entities(self, caller: Caller) -> _Part[Entity]:
        database, organization_id = self._database, caller.organization_id
        return _Part(
            identify=lambda entity: entity.entity_id,
            compare=partial(entities.compare_all, database, organization_id),
            put=partial(entities.put_all, database, organization_id, by=caller.key_id),
            count=partial(entities.count, database, organization_id),
            limit=self._settings.max_entities,
            setting="KB_MAX_ENTITIES",
        )

    def _nodes(self, caller: Caller) -> _Part[GraphNode]:
        database, organization_id = self._database, caller.organization_id
        return _Part(
            identify=lambda node: node.node_id,
            compare=partial(knowledge_graph.compare_nodes, database, organization_id),
            put=partial(knowledge_graph.put_nodes, database, organization_id, by=caller.key_id),
            count=partial(knowledge_graph.count_nodes, database, organization_id),
            limit=self._settings.max_graph_nodes,
            setting="KB_MAX_GRAPH_NODES",
        )

    def _edges(self, caller: Caller, *, new_nodes: set[str]) -> _Part[GraphEdge]:
        database, organization_id = self._database, caller.organization_id
        return _Part(
            identify=knowledge_graph.edge_id_of,
            compare=partial(knowledge_graph.compare_edges, database, organization_id, new_nodes=new_nodes),
            put=partial(knowledge_graph.put_edges, database, organization_id, by=caller.key_id),
            count=partial(knowledge_graph.count_edges, database, organization_id),
            limit=self._settings.max_graph_edges,
            setting="KB_MAX_GRAPH_EDGES",
        )

    def _pieces(self, caller: Caller) -> _Part[Any]:
        pieces = PieceWriter(self._database, self._writer, caller)
        return _Part(
            identify=lambda piece: piece.piece_id,
            compare=pieces.compare,
            put=pieces.put,
            count=partial(knowledge_entries.count, self._database, caller.organization_id),
            limit=self._settings.max_knowledge_entries,
            setting="KB_MAX_KNOWLEDGE_ENTRIES",
        )


async def _load(
    part: _Part[M], items: Sequence[ImportItem[M]], *, skipped: list[SkippedItem], dry_run: bool
) -> _Loaded:
    result = _Loaded()
    room = part.limit - await part.count() if part.limit else len(items)
    for start in range(0, len(items), _ITEMS_AT_ONCE):
        batch = {part.identify(item.value): item for item in items[start : start + _ITEMS_AT_ONCE]}
        outcome = await part.compare([item.value for item in batch.values()])
        created = [each for each in batch if each in outcome.created]
        no_room = f"there is no room for it: {part.setting} is {part.limit}"
        skipped.extend(batch.pop(each).skipped(no_room) for each in created[max(room, 0) :])
        if not dry_run:
            outcome = await part.put([item.value for item in batch.values()])
        lacking = [each for each in batch if each in outcome.missing]
        skipped.extend(_skip_edge(batch.pop(each), outcome.missing[each]) for each in lacking)
        room -= len(outcome.created & batch.keys())
        result.loaded += len(batch)
        result.changed += len(outcome.written & batch.keys())
        result.created_ids |= outcome.created & batch.keys()
    return result


def _count_items(parts: Sequence[_Loaded], *, skipped: int) -> None:
    changed = sum(part.changed for part in parts)
    IMPORT_ITEMS.labels("changed").inc(changed)
    IMPORT_ITEMS.labels("unchanged").inc(sum(part.loaded for part in parts) - changed)
    IMPORT_ITEMS.labels("skipped").inc(skipped)


def _skip_edge(item: ImportItem[Any], missing: frozenset[str]) -> SkippedItem:
    edge: GraphEdge = item.value
    reason = missing_nodes(edge, {edge.source_id, edge.target_id} - missing)
    return item.skipped(reason or "one of its nodes was deleted meanwhile")
