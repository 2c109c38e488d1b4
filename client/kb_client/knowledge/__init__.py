"""Curated knowledge: what is known about an entity, and its place in a prompt.

from kb_client.knowledge import KnowledgeBase, KnowledgeProvider, open_stores

stores = open_stores("http", client=client)
with KnowledgeBase(*stores, active_entity_id="user:alice") as kb:
    sections = KnowledgeProvider(kb)("Set up the next simulation.")
"""

from kb_client.knowledge.data_loader import KnowledgeDataLoader, LoadReport, SkippedKnowledge
from kb_client.knowledge.knowledge_base import KnowledgeBase
from kb_client.knowledge.memory_stores import MemoryGraphStore, MemoryMetadataStore, MemoryPieceStore
from kb_client.knowledge.provider import KnowledgeProvider
from kb_client.knowledge.store_registry import open_stores
from kb_client.knowledge.stores import GraphStore, KnowledgeStores, MetadataStore, MissingNode, PieceStore
from kb_contracts.knowledge.entities import GLOBAL_RECORD_ID, Entity
from kb_contracts.knowledge.formatters.section_formatters import FormatterTemplate, compile_formatter
from kb_contracts.knowledge.graph import GraphEdge, GraphNode
from kb_contracts.knowledge.knowledge_formatter import KnowledgeFormatter
from kb_contracts.knowledge.pieces import KnowledgePiece
from kb_contracts.knowledge.prompt_template import feed_knowledge, fill_template
from kb_contracts.knowledge.retrieval import GraphRelation, RetrievalResult, RetrievedPiece
from kb_contracts.knowledge.routing import RoutedSection

__all__ = [
    "GLOBAL_RECORD_ID",
    "Entity",
    "FormatterTemplate",
    "GraphEdge",
    "GraphNode",
    "GraphRelation",
    "GraphStore",
    "KnowledgeBase",
    "KnowledgeDataLoader",
    "KnowledgeFormatter",
    "KnowledgePiece",
    "KnowledgeProvider",
    "KnowledgeStores",
    "LoadReport",
    "MemoryGraphStore",
    "MemoryMetadataStore",
    "MemoryPieceStore",
    "MetadataStore",
    "MissingNode",
    "PieceStore",
    "RetrievalResult",
    "RetrievedPiece",
    "RoutedSection",
    "SkippedKnowledge",
    "compile_formatter",
    "feed_knowledge",
    "fill_template",
    "open_stores",
]
