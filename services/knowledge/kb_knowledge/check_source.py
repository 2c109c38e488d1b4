"""Checks what a source is configured with, before anything is stored: the first of three checks of its addresses."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import PurePath
from typing import Any

from kb_contracts.api.knowledge_sources import FileUploadConfig, McpConfig, SourceConfig, UrlCrawlConfig
from kb_knowledge.sources.canonical_url import canonical_url
from kb_knowledge.sources.crawl_scope import CrawlScope, UnusablePrefix
from kb_knowledge.sources.parse_item import SUFFIXES_OF_FILES
from kb_knowledge.sources.schedule import InvalidCron, check_cron, next_run_at
from kb_knowledge.sources.source_address import ForbiddenAddress, check_address, count_refused
from kb_knowledge.store import mcp_servers, source_files
from kb_knowledge.store.keys import McpServerKey
from kb_knowledge.store.source_files import SourceFileKey
from kb_shared.http.problems import invalid_field
from kb_shared.mongo.database import Database


async def check_config(
    database: Database, organization_id: str, config: SourceConfig, *, allow_private: bool
) -> Mapping[str, Any]:
    """Return the configuration of a source as it is stored, with canonical addresses.

    Raises:
        RequestError: 422 `validation-error`.
    """
    match config:
        case UrlCrawlConfig():
            return await _check_crawl(config, allow_private=allow_private)
        case FileUploadConfig():
            await _check_file(database, organization_id, config)
        case McpConfig():
            if await mcp_servers.find(database, McpServerKey(organization_id, config.mcp_server_id)) is None:
                raise invalid_field("config.mcp_server_id", "must be the id of one of your MCP servers")
    return config.model_dump()


def check_schedule(cron_expression: str | None, *, enabled: bool, source_id: str, now: datetime) -> datetime | None:
    """Return when a source runs next; None: not by itself.

    Raises:
        RequestError: 422 `validation-error`.
    """
    if cron_expression is None:
        return None
    try:
        check_cron(cron_expression, now=now)
        return next_run_at(cron_expression, source_id=source_id, after=now) if enabled else None
    except InvalidCron as invalid:
        raise invalid_field("cron_expression", f"must be {invalid}") from None


async def require_address(url: str, *, field: str, allow_private: bool) -> None:
    """Check where an address leads. Raises RequestError 422 `validation-error`."""
    try:
        await check_address(url, allow_private=allow_private)
    except ForbiddenAddress as forbidden:
        count_refused(forbidden.reason)
        raise invalid_field(field, f"must be {forbidden}") from None


async def _check_crawl(config: UrlCrawlConfig, *, allow_private: bool) -> Mapping[str, Any]:
    await require_address(config.url, field="config.url", allow_private=allow_private)
    url = canonical_url(config.url)
    if url is None:
        raise invalid_field("config.url", "must be a complete http or https address")
    try:
        scope = CrawlScope.from_source(url, config.prefixes or ())
    except UnusablePrefix as unusable:
        raise invalid_field("config.prefixes", f"must be {unusable}") from None
    if config.prefixes:
        for prefix in scope.prefixes:
            await require_address(prefix, field="config.prefixes", allow_private=allow_private)
    return {"url": url, "depth": config.depth, "prefixes": list(scope.prefixes) if config.prefixes else None}


async def _check_file(database: Database, organization_id: str, config: FileUploadConfig) -> None:
    require_format(config.filename, field="config.filename")
    if not await source_files.exists(database, SourceFileKey(organization_id, config.file_id)):
        raise invalid_field("config.file_id", "must be the file_id that POST /knowledge-sources/files returned")


def require_format(filename: str, *, field: str) -> None:
    """Check that files with this name can be read. Raises RequestError 422 `validation-error`."""
    if PurePath(filename).suffix.lower() not in SUFFIXES_OF_FILES:
        raise invalid_field(field, f"must end with one of {', '.join(sorted(SUFFIXES_OF_FILES))}")
