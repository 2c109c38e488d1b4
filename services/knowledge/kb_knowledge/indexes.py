"""The collections that this service uses, with their indexes, which it creates at its start."""

from typing import Final

from kb_knowledge.store import crawl_frontier, knowledge_sources, mcp_servers, source_files, source_items, source_runs
from kb_shared.mongo.schema import CollectionIndexes

COLLECTIONS: Final[tuple[CollectionIndexes, ...]] = (
    (crawl_frontier.NAME, crawl_frontier.INDEXES),
    (knowledge_sources.NAME, knowledge_sources.INDEXES),
    (mcp_servers.NAME, mcp_servers.INDEXES),
    (source_files.FILES, source_files.FILE_INDEXES),
    (source_items.NAME, source_items.INDEXES),
    (source_runs.NAME, source_runs.INDEXES),
)
