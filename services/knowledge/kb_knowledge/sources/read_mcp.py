"""Reads the text resources of an MCP server."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation, Resource, TextResourceContents
from pydantic import ValidationError

from kb_knowledge.sources.frontier import Frontier, FrontierItem
from kb_knowledge.sources.mcp_transport import TIMEOUT_S, create_mcp_http
from kb_knowledge.sources.parse_item import HTML, ItemParser, ItemUnreadable
from kb_knowledge.sources.read_items import ReadItem, SourceUnusable
from kb_knowledge.sources.record_item import ItemRecorder
from kb_knowledge.sources.source_items import ItemOutcome, SourceItem

MAX_LISTED: Final = 5_000
"""Number of resources of a server that are looked at."""
MAX_URI_CHARACTERS: Final = 2_000
_TEXT_TYPES: Final = ("text/", "application/json", "application/xml", "application/yaml", "application/x-yaml")
_CLIENT: Final = Implementation(name="knowledge-bases", version="1")

# The library logs what a server has sent.
logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)


class _CallFailed(Exception):
    """A call of the server that did not succeed. The message quotes nothing of its answer."""


@dataclass(frozen=True, slots=True)
class McpServerAccess:
    url: str
    headers: Mapping[str, str]
    allow_private: bool


class McpResources:
    """Reads the resources of one run."""

    def __init__(
        self, client: Client, pattern: str | None, *, parser: ItemParser, frontier: Frontier, recorder: ItemRecorder
    ) -> None:
        """Construct it; `pattern` is a pattern of URIs with `*`, `?` and `[...]`, None for all."""
        self._client = client
        self._pattern = pattern
        self._parser = parser
        self._frontier = frontier
        self._recorder = recorder
        self._resources: dict[str, Resource] = {}

    async def begin(self) -> None:
        cursor: str | None = None
        while True:
            try:
                async with _answers():
                    page = await self._client.list_resources(cursor=cursor, cache_mode="bypass")
            except _CallFailed as failed:
                raise SourceUnusable(f"the resources of the MCP server can't be listed: {failed}") from None
            usable = {str(each.uri): each for each in page.resources if len(str(each.uri)) <= MAX_URI_CHARACTERS}
            self._resources |= usable
            await self._frontier.add([FrontierItem(uri) for uri in usable])
            cursor = page.next_cursor
            if cursor is None or len(self._resources) >= MAX_LISTED or not page.resources:
                return

    async def read(self, item: FrontierItem) -> ReadItem:
        resource = self._resources.get(item.address)
        if resource is None:
            return ReadItem(ItemOutcome.GONE)
        if not _matches(item.address, self._pattern) or not _may_be_text(resource.mime_type):
            return ReadItem(ItemOutcome.SKIPPED)
        known = await self._recorder.known_items.find(item.address)
        key = known.key if known else None
        try:
            async with _answers():
                answer = await self._client.read_resource(item.address, cache_mode="bypass")
            read = [await self._read_part(part) for part in answer.contents if isinstance(part, TextResourceContents)]
        except (_CallFailed, ItemUnreadable) as failed:
            return ReadItem(ItemOutcome.FAILED, key=key, message=str(failed))
        text = "\n\n".join(text for text, _ in read if text)
        warnings = tuple(dict.fromkeys(warning for _, part_warnings in read for warning in part_warnings))
        if not text:
            return ReadItem(ItemOutcome.SKIPPED)
        recorded = await self._recorder.record(
            SourceItem(item.address, _title(resource), text, url=_web_address(item.address)),
            known=known,
            warnings=warnings,
        )
        return ReadItem(
            recorded.outcome,
            key=item.address,
            message=recorded.problem,
            bytes_read=len(text.encode()),
            warnings=warnings,
        )

    async def _read_part(self, part: TextResourceContents) -> tuple[str, tuple[str, ...]]:
        """Return the text of a part, with what the parser says of it."""
        # A lone surrogate can be in JSON and in no text.
        text = part.text.encode("utf-8", "replace").decode().replace("\0", "")
        if part.mime_type in HTML:
            parsed = await self._parser.parse_page(text.encode(), media_type="text/html", charset="utf-8", name="page")
            return parsed.text, parsed.warnings
        return text.strip(), ()


@asynccontextmanager
async def open_mcp_client(access: McpServerAccess) -> AsyncIterator[Client]:
    """Connect to a server, through the guard.

    Raises:
        SourceUnusable: it can't be reached, or is no MCP server.
    """
    async with create_mcp_http(dict(access.headers), allow_private=access.allow_private) as http:
        client = Client(
            streamable_http_client(access.url, http_client=http),
            client_info=_CLIENT,
            read_timeout_seconds=TIMEOUT_S,
            cache=None,
        )
        stack = AsyncExitStack()
        try:
            async with _answers():
                await stack.enter_async_context(client)
        except _CallFailed as failed:
            raise SourceUnusable(f"the MCP server can't be used: {failed}; check its address and headers") from None
        failure: Exception | None = None
        async with stack:
            try:
                yield client
            except Exception as error:  # noqa: BLE001  # the task group of the library would wrap it in a group
                failure = error
    if failure is not None:
        raise failure


@asynccontextmanager
async def _answers() -> AsyncIterator[None]:
    """Raise what the library raises of a server that fails as `_CallFailed`."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            yield
    except TimeoutError:
        raise _CallFailed(f"it did not answer within {TIMEOUT_S:g} s") from None
    except MCPError as error:
        raise _CallFailed(f"it answered with the error {error.error.code}") from None
    except ValidationError:
        raise _CallFailed("its answer is not what the protocol says") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError):
        raise _CallFailed("it can't be reached, is not public, or refuses the headers") from None
    except BaseExceptionGroup as group:
        if group.split((Exception,))[1] is not None:
            raise
        raise _CallFailed("it can't be reached, is not public, or refuses the headers") from None


def _matches(uri: str, pattern: str | None) -> bool:
    return pattern is None or fnmatchcase(uri, pattern)


def _may_be_text(mime_type: str | None) -> bool:
    return mime_type is None or mime_type.lower().startswith(_TEXT_TYPES)


def _title(resource: Resource) -> str:
    title = resource.title or resource.name or str(resource.uri)
    return " ".join("".join(c if c.isprintable() else " " for c in title).split()) or str(resource.uri)


def _web_address(uri: str) -> str | None:
    return uri if uri.startswith(("http://", "https://")) else None
