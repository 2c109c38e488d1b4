"""Addresses of the pages about curated knowledge."""

from typing import Final

from tests.unit.console.knowledge_answers import CHECK_IN_ID, ENTITY_ID, ENTRY_ID, NODE_ID, SERVER_ID, SOURCE_ID

_KNOWLEDGE: Final = "/console/orgs/acme/knowledge"
WITHOUT_CALLS: Final = [f"{_KNOWLEDGE}/new", f"{_KNOWLEDGE}/search", f"{_KNOWLEDGE}/import"]
"""Pages that ask the API for nothing."""
KNOWLEDGE_PAGES: Final = [
    _KNOWLEDGE,
    f"{_KNOWLEDGE}?q=x&status=ready&entity_id=user:alice",
    f"{_KNOWLEDGE}/search?q=leave",
    f"{_KNOWLEDGE}/entries/{ENTRY_ID}",
    f"{_KNOWLEDGE}/entries/{ENTRY_ID}/delete",
    f"{_KNOWLEDGE}/structure",
    f"{_KNOWLEDGE}/check-ins/{CHECK_IN_ID}",
    f"{_KNOWLEDGE}/entities",
    f"{_KNOWLEDGE}/entities/{ENTITY_ID}",
    f"{_KNOWLEDGE}/entities/{ENTITY_ID}/delete",
    f"{_KNOWLEDGE}/graph",
    f"{_KNOWLEDGE}/graph?entity_id={ENTITY_ID}&depth=2",
    f"{_KNOWLEDGE}/graph/nodes/{NODE_ID}",
    f"{_KNOWLEDGE}/graph/nodes/{NODE_ID}/delete",
    f"{_KNOWLEDGE}/sources",
    f"{_KNOWLEDGE}/sources/new?kind=mcp",
    f"{_KNOWLEDGE}/sources/{SOURCE_ID}",
    f"{_KNOWLEDGE}/sources/{SOURCE_ID}/delete",
    f"{_KNOWLEDGE}/mcp-servers",
    f"{_KNOWLEDGE}/mcp-servers/{SERVER_ID}",
    f"{_KNOWLEDGE}/mcp-servers/{SERVER_ID}/delete",
    *WITHOUT_CALLS,
]
