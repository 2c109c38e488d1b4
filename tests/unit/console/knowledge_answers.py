"""Calls about curated knowledge, with the models of their answers."""

from typing import Final

from pydantic import BaseModel

from kb_contracts.api.chat_models import ChatModelList
from kb_contracts.api.check_ins import CheckInList, CheckInView
from kb_contracts.api.entities import EntityList, EntityView
from kb_contracts.api.knowledge_entries import EntryChunkList, EntryPage, EntryView
from kb_contracts.api.knowledge_graph import EdgeList, EdgeView, NeighbourhoodView, NodeList, NodeView
from kb_contracts.api.knowledge_imports import ImportReport
from kb_contracts.api.knowledge_retrieval import EntrySearchResponse
from kb_contracts.api.knowledge_sources import (
    KnowledgeSourceList,
    KnowledgeSourceView,
    SourceFile,
    SourcePreview,
    SourceRunList,
    SourceRunView,
)
from kb_contracts.api.mcp_servers import McpServerList, McpServerView
from kb_contracts.api.model import MessageResponse

ENTRY_ID: Final = "les-rans-init"
ENTITY_ID: Final = "user:alice"
NODE_ID: Final = "technique:les"
EDGE_ID: Final = "5c1f0e9d8b7a69584736251f"
CHECK_IN_ID: Final = "65f1c2a3b4d5e6f708192a71"
SOURCE_ID: Final = "65f1c2a3b4d5e6f708192a71"
RUN_ID: Final = "65f1c2a3b4d5e6f708192a72"
SERVER_ID: Final = "65f1c2a3b4d5e6f708192a74"
_ENTRY: Final = f"/knowledge-entries/{ENTRY_ID}"
_SOURCE: Final = f"/knowledge-sources/{SOURCE_ID}"
KNOWLEDGE_ANSWERS: Final[dict[str, type[BaseModel]]] = {
    "GET /knowledge-entries": EntryPage,
    "POST /knowledge-entries": EntryView,
    f"GET {_ENTRY}": EntryView,
    f"PATCH {_ENTRY}": EntryView,
    f"DELETE {_ENTRY}": MessageResponse,
    f"GET {_ENTRY}/chunks": EntryChunkList,
    f"POST {_ENTRY}/retry": EntryView,
    "GET /knowledge/search": EntrySearchResponse,
    "POST /knowledge:import": ImportReport,
    "POST /knowledge:structure": CheckInView,
    "GET /check-ins": CheckInList,
    f"GET /check-ins/{CHECK_IN_ID}": CheckInView,
    f"POST /check-ins/{CHECK_IN_ID}/apply": CheckInView,
    "GET /chat-models": ChatModelList,
    "GET /entities": EntityList,
    f"GET /entities/{ENTITY_ID}": EntityView,
    f"PUT /entities/{ENTITY_ID}": EntityView,
    f"DELETE /entities/{ENTITY_ID}": MessageResponse,
    "GET /entities/global": EntityView,
    "GET /graph/nodes": NodeList,
    f"GET /graph/nodes/{NODE_ID}": NodeView,
    f"GET /graph/nodes/{ENTITY_ID}": NodeView,
    f"PUT /graph/nodes/{NODE_ID}": NodeView,
    f"DELETE /graph/nodes/{NODE_ID}": MessageResponse,
    "GET /graph/edges": EdgeList,
    "PUT /graph/edges": EdgeView,
    f"DELETE /graph/edges/{EDGE_ID}": MessageResponse,
    "GET /graph/neighbourhood": NeighbourhoodView,
    "GET /knowledge-sources": KnowledgeSourceList,
    "POST /knowledge-sources": KnowledgeSourceView,
    "POST /knowledge-sources/files": SourceFile,
    f"GET {_SOURCE}": KnowledgeSourceView,
    f"PATCH {_SOURCE}": KnowledgeSourceView,
    f"DELETE {_SOURCE}": MessageResponse,
    f"POST {_SOURCE}/run": SourceRunView,
    f"POST {_SOURCE}/preview": SourcePreview,
    f"GET {_SOURCE}/runs": SourceRunList,
    f"POST {_SOURCE}/runs/{RUN_ID}/cancel": SourceRunView,
    "GET /mcp-servers": McpServerList,
    "POST /mcp-servers": McpServerView,
    f"GET /mcp-servers/{SERVER_ID}": McpServerView,
    f"PATCH /mcp-servers/{SERVER_ID}": McpServerView,
    f"DELETE /mcp-servers/{SERVER_ID}": MessageResponse,
}
