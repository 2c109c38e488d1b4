"""The use case of a retrieval over three layers: properties, pieces and the graph.

The steps, in order: read the entity and the global record, search for pieces and traverse the graph, all at the same
time; read the pieces that were found or that edges are linked to; merge all into one result with its sections.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kb_contracts.knowledge.assemble_retrieval import assemble_retrieval
from kb_contracts.knowledge.entities import GLOBAL_RECORD_ID
from kb_contracts.knowledge.entry_fields import DEFAULT_INFO_TYPE
from kb_contracts.knowledge.formatters.section_formatters import FormatterTemplate
from kb_contracts.knowledge.graph import PIECE_ID_PROPERTY
from kb_contracts.knowledge.merging import graph_score, merge_pieces
from kb_contracts.knowledge.plain_text import ITEM_DELIMITER
from kb_contracts.knowledge.properties import PropertyValue
from kb_contracts.knowledge.retrieval import GraphRelation, RetrievalResult, RetrievedPiece
from kb_contracts.knowledge.routing import METADATA_INFO_TYPE
from kb_contracts.reserved_ids import find_entry_id
from kb_search.knowledge.entry_criteria import criteria_of_pieces
from kb_search.knowledge.fit_pieces import fit_pieces
from kb_search.knowledge.section_templates import compile_templates
from kb_search.retrieval.query import SearchCaller, SearchQuery
from kb_search.retrieval.search_knowledge_base import KnowledgeBaseSearch, SearchAnswer
from kb_search.retrieval.selection import Hit
from kb_shared.concurrency.concurrent_tasks import run_three_or_cancel
from kb_shared.concurrency.shared_thread import SharedThread
from kb_shared.http.authentication import CachedKey
from kb_shared.mongo import entities, knowledge_bases, knowledge_entries, knowledge_graph
from kb_shared.mongo.database import Database
from kb_shared.mongo.entities import EntityRecord
from kb_shared.mongo.knowledge_entries import KnowledgeEntry
from kb_shared.mongo.knowledge_graph import EdgeRecord, NodeKey, NodeRecord

MAX_LINKED_PIECES: Final = 50
"""Limit of the pieces that are read because edges are linked to them, the nearest ones."""
SHARE_OF_ORGANIZATION: Final = 0.25
"""Share of one organization of the time of the thread that evaluates templates."""
_CHUNKS_OF_A_PIECE: Final = 3
"""Number of chunks to search for each wanted piece: several may be of one piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeQuery:
    """A query for what is known, with validated values."""

    text: str
    entity_id: str | None = None
    top_k: int = 5
    knowledge_types: Sequence[str] | None = None
    info_types: Sequence[str] | None = None
    tags: Sequence[str] | None = None
    kb_ids: Sequence[str] | None = None
    """KBs to search; None: that of the organization's entries."""
    depth: int = 1
    metadata_info_type: str = METADATA_INFO_TYPE
    item_delimiter: str = ITEM_DELIMITER
    templates: Mapping[str, FormatterTemplate] = field(default_factory=dict)

    def admits(self, entry: KnowledgeEntry) -> bool:
        """Return whether an entry is a piece with one of the kinds, sections and tags, whatever its entity."""
        return (
            entry.knowledge_type is not None
            and (self.knowledge_types is None or entry.knowledge_type in self.knowledge_types)
            and (self.info_types is None or entry.info_type in self.info_types)
            and (self.tags is None or not set(self.tags).isdisjoint(entry.tags))
        )


@dataclass(frozen=True, slots=True)
class RetrievalAnswer:
    """Answer of a retrieval."""

    result: RetrievalResult
    omitted_pieces: int
    """Number of pieces that did not fit."""
    spu_charged: int
    degraded: bool
    """True if the provider gave no vector of the query."""


class KnowledgeRetrieval:
    """Retrieves what is known about an entity. There is one in each process."""

    def __init__(self, database: Database, search: KnowledgeBaseSearch) -> None:
        self._database = database
        self._search = search
        self._thread = SharedThread("templates", share_of=lambda _: SHARE_OF_ORGANIZATION)

    async def retrieve(
        self, organization_id: str, *, query: KnowledgeQuery, search_caller: SearchCaller, key: CachedKey | None
    ) -> RetrievalAnswer:
        """Retrieve properties, pieces and relations.

        Raises:
            RequestError, TransientError: as a search of the knowledge base does; 422 if a template contains what is
                not allowed, or reaches its limits.
        """
        records, answer, relations = await run_three_or_cancel(
            self._read_records(organization_id, entity_id=query.entity_id),
            self._search_pieces(organization_id, query, search_caller=search_caller, key=key),
            self._read_relations(organization_id, query),
        )
        scores = _scores(answer.page.hits if answer else (), top_k=query.top_k)
        linked = _linked_scores(relations)
        entries = await knowledge_entries.find_by_ids(
            self._database, organization_id, entry_ids=scores.keys() | linked.keys()
        )
        pieces = [
            _to_piece(entry, score=of_layer[entry_id])
            for of_layer in (scores, linked)
            for entry_id, entry in entries.items()
            if entry_id in of_layer and query.admits(entry)
        ]
        fitting = fit_pieces(merge_pieces(pieces))

        def assemble() -> RetrievalResult:
            return assemble_retrieval(
                metadata=_properties(records, query.entity_id),
                global_metadata=_properties(records, GLOBAL_RECORD_ID),
                pieces=fitting.pieces,
                relations=relations,
                metadata_info_type=query.metadata_info_type,
                item_delimiter=query.item_delimiter,
                formatters=compile_templates(query.templates),
            )

        # Templates may take a tenth of a second each.
        result = await self._thread.work(organization_id, assemble) if query.templates else assemble()
        return RetrievalAnswer(
            result,
            fitting.omitted_count,
            spu_charged=answer.spu_charged if answer else 0,
            degraded=answer is not None and answer.degraded,
        )

    async def _read_records(self, organization_id: str, *, entity_id: str | None) -> Mapping[str, EntityRecord]:
        ids = [GLOBAL_RECORD_ID] if entity_id is None else [GLOBAL_RECORD_ID, entity_id]
        found = await entities.find_all(self._database, organization_id, entity_ids=ids)
        return {record.entity_id: record for record in found}

    async def _search_pieces(
        self, organization_id: str, query: KnowledgeQuery, *, search_caller: SearchCaller, key: CachedKey | None
    ) -> SearchAnswer | None:
        if not query.text.strip():
            return None
        criteria = criteria_of_pieces(
            entity_id=query.entity_id,
            knowledge_types=query.knowledge_types,
            info_types=query.info_types,
            tags=query.tags,
        )
        # What is known of an entity is put into a prompt although the question may name another thing.
        chunk_query = SearchQuery(
            query.text, top_k=query.top_k * _CHUNKS_OF_A_PIECE, min_score=0, coalesce_neighbors=0, criteria=criteria
        )
        kb_ids = query.kb_ids
        if kb_ids is None:
            kb_ids = await find_entries_kb_ids(self._database, organization_id, limited_to=search_caller.kb_ids)
        return await self._search.search_several(
            organization_id, kb_ids=kb_ids, query=chunk_query, search_caller=search_caller, key=key
        )

    async def _read_relations(self, organization_id: str, query: KnowledgeQuery) -> list[GraphRelation]:
        if query.entity_id is None or query.depth == 0:
            return []
        found = await knowledge_graph.find_neighbourhood(
            self._database, NodeKey(organization_id, query.entity_id), depth=query.depth
        )
        nodes = {node.node_id: node for node in found.nodes}
        return [_to_relation(edge, nodes[edge.target_id], depth=depth) for edge, depth in found.edges]


async def find_entries_kb_ids(
    database: Database, organization_id: str, *, limited_to: frozenset[str] | None
) -> list[str]:
    """Return the id of the KB of the organization's entries.

    The list is empty before the first entry, and for a key that is limited to other KBs.
    """
    kb = await knowledge_bases.find_knowledge(database, organization_id)
    return [] if kb is None or (limited_to is not None and kb.kb_id not in limited_to) else [kb.kb_id]


def _scores(hits: Iterable[Hit], *, top_k: int) -> dict[str, float]:
    """Return the relevance of the best chunk of each found entry; of the best `top_k` entries."""
    hits = list(hits)
    best = max((hit.scores.fused for hit in hits), default=1.0)
    scores: dict[str, float] = {}
    for hit in hits:
        entry_id = find_entry_id(hit.chunk["document_id"])
        if entry_id is not None:
            # Without a vector of the query, the ranks tell which passage is better, but not how good it is.
            score = hit.relevance if hit.relevance is not None else hit.scores.fused / best
            scores[entry_id] = max(score, scores.get(entry_id, 0.0))
    return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:top_k])


def _linked_scores(relations: Iterable[GraphRelation]) -> dict[str, float]:
    """Return the scores of the pieces that edges are linked to, of the nearest ones."""
    scores: dict[str, float] = {}
    for relation in relations:
        if relation.piece_id is not None:
            scores[relation.piece_id] = max(graph_score(relation.depth), scores.get(relation.piece_id, 0.0))
    return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:MAX_LINKED_PIECES])


def _to_piece(entry: KnowledgeEntry, *, score: float) -> RetrievedPiece:
    assert entry.knowledge_type is not None
    return RetrievedPiece(
        piece_id=entry.entry_id,
        content=entry.content,
        knowledge_type=entry.knowledge_type,
        info_type=entry.info_type or DEFAULT_INFO_TYPE,
        entity_id=entry.entity_id,
        title=entry.title,
        type=entry.type,
        tags=list(entry.tags),
        score=score,
    )


def _to_relation(edge: EdgeRecord, target: NodeRecord, *, depth: int) -> GraphRelation:
    piece_id = edge.properties.get(PIECE_ID_PROPERTY)
    return GraphRelation(
        relation_type=edge.edge_type,
        target_node_id=target.node_id,
        target_type=target.node_type,
        label=target.label,
        depth=depth,
        piece_id=piece_id if isinstance(piece_id, str) else None,
        properties=edge.properties,
    )


def _properties(records: Mapping[str, EntityRecord], entity_id: str | None) -> Mapping[str, PropertyValue]:
    record = None if entity_id is None else records.get(entity_id)
    return {} if record is None else record.properties
