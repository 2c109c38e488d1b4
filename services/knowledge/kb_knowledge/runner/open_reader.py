"""Makes what reads a source, by its kind."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kb_knowledge.runner.run_source import OpenedReader, ReaderTools
from kb_knowledge.sources.crawl import MAX_PAGES, Crawler, CrawlPlan
from kb_knowledge.sources.crawl_pace import CrawlPace
from kb_knowledge.sources.crawl_scope import CrawlScope
from kb_knowledge.sources.guarded_http import FetchLimits, GuardedHttp
from kb_knowledge.sources.parse_item import ItemParser
from kb_knowledge.sources.read_file import UploadedFile
from kb_knowledge.sources.read_items import SourceUnusable
from kb_knowledge.sources.read_mcp import McpResources, McpServerAccess, open_mcp_client
from kb_knowledge.store import mcp_servers, source_files
from kb_knowledge.store.keys import McpServerKey
from kb_knowledge.store.knowledge_sources import KnowledgeSource, SourceKind
from kb_knowledge.store.mcp_servers import McpServer
from kb_knowledge.store.source_files import SourceFileKey
from kb_shared.mongo.database import Database
from kb_shared.secrets.key_ring import KeyRing, Unreadable


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    allow_private: bool
    crawl_delay_s: float
    max_items: int
    page_limits: FetchLimits


@dataclass(frozen=True, slots=True)
class SourceReaders:
    """Makes readers; one per process."""

    database: Database
    http: GuardedHttp
    key_ring: KeyRing | None
    settings: ReaderSettings
    open_parser: Callable[[], AbstractContextManager[ItemParser]] = ItemParser

    @asynccontextmanager
    async def open(self, source: KnowledgeSource, tools: ReaderTools) -> AsyncIterator[OpenedReader]:
        """Make what reads `source`, by default with a parser process of its own.

        Raises:
            SourceUnusable: what the source names does not exist any more, or can't be reached.
        """
        with self.open_parser() as parser:
            match source.kind:
                case SourceKind.URL_CRAWL:
                    yield OpenedReader(self._crawler(source, tools, parser), MAX_PAGES)
                case SourceKind.FILE_UPLOAD:
                    yield OpenedReader(self._file(source, tools, parser), 1)
                case SourceKind.MCP:
                    async with open_mcp_client(await self._mcp_access(source)) as client:
                        reader = McpResources(
                            client,
                            source.config.get("resource_pattern"),
                            parser=parser,
                            frontier=tools.frontier,
                            recorder=tools.recorder,
                        )
                        yield OpenedReader(reader, self.settings.max_items)

    def _crawler(self, source: KnowledgeSource, tools: ReaderTools, parser: ItemParser) -> Crawler:
        scope = CrawlScope.from_source(source.config["url"], source.config.get("prefixes") or ())
        return Crawler(
            CrawlPlan(scope, source.config["depth"], self.settings.page_limits),
            http=self.http,
            parser=parser,
            frontier=tools.frontier,
            recorder=tools.recorder,
            pace=CrawlPace(delay_s=self.settings.crawl_delay_s),
        )

    def _file(self, source: KnowledgeSource, tools: ReaderTools, parser: ItemParser) -> UploadedFile:
        key = SourceFileKey(source.organization_id, source.config["file_id"])

        async def save(path: Path) -> int | None:
            return await source_files.save(self.database, key, path)

        filename = source.config["filename"]
        return UploadedFile(filename, save, parser=parser, frontier=tools.frontier, recorder=tools.recorder)

    async def _mcp_access(self, source: KnowledgeSource) -> McpServerAccess:
        key = McpServerKey(source.organization_id, source.config["mcp_server_id"])
        server = await mcp_servers.find(self.database, key)
        if server is None:
            raise SourceUnusable("its MCP server was deleted; change the mcp_server_id of the source")
        return McpServerAccess(server.url, self._headers(server), self.settings.allow_private)

    def _headers(self, server: McpServer) -> dict[str, str]:
        if server.headers is None:
            return {}
        if self.key_ring is None:
            raise SourceUnusable("this deployment can't decrypt the headers of the MCP server; ask your operator")
        try:
            return dict(mcp_servers.open_headers(self.key_ring, server))
        except Unreadable:
            raise SourceUnusable("the headers of the MCP server can't be decrypted; store them again") from None
