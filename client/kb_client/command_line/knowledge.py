"""`kb knowledge`: entries, sources, imports, entities and the graph, and texts that a chat model structures."""

from kb_client.command_line import (
    knowledge_entities,
    knowledge_entries,
    knowledge_graph,
    knowledge_imports,
    knowledge_mcp_servers,
    knowledge_search,
    knowledge_sources,
    source_runs,
)
from kb_client.command_line.knowledge_group import app

__all__ = ["app", "knowledge_entries", "knowledge_imports", "knowledge_search", "source_runs"]

for group in (knowledge_sources, knowledge_mcp_servers, knowledge_entities, knowledge_graph):
    app.add_typer(group.app)
