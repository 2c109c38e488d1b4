"""The tools of the MCP endpoint: search knowledge bases and entries, list knowledge bases, read chunks of a document.

The organization is that of the key. Ids in arguments are looked up in this organization only.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

import structlog
from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import AfterValidator, Field
from pymongo.errors import PyMongoError

from kb_contracts.api.model import StrictModel
from kb_contracts.api.runs import KbIds
from kb_contracts.api.search import RequestedKbId
from kb_contracts.identifiers import Identifier
from kb_contracts.knowledge.entry_fields import EntryType
from kb_contracts.text_rules import storable
from kb_search.knowledge.search_entries import EntrySearch
from kb_search.mcp.document_chunks import read_document_chunks
from kb_search.mcp.management_tools import Management
from kb_search.mcp.tool_results import (
    Blocks,
    render_document_chunks,
    render_entries,
    render_knowledge_bases,
    render_search_results,
)
from kb_search.retrieval.query import SearchCaller
from kb_search.retrieval.search_knowledge_base import KnowledgeBaseSearch
from kb_search.runs.knowledge_tools import (
    DEFAULT_TOP_K,
    SearchArguments,
    build_search_parameters,
)
from kb_search.runs.lenient_arguments import Arguments, ReadArguments, read_arguments
from kb_search.runs.written_arguments import UnusableCall
from kb_shared.concurrency.fair_queue import FairQueue
from kb_shared.errors import KbError, TransientError
from kb_shared.http.authentication import Caller
from kb_shared.http.problems import as_request_error
from kb_shared.http.request_limits import RequestLimits
from kb_shared.mongo import knowledge_bases
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import MembershipKey
from kb_shared.observability import spans, tracing

SEARCH: Final = "search_knowledge_base"
LIST: Final = "list_knowledge_bases"
CHUNKS: Final = "get_document_chunks"
ENTRIES: Final = "knowledge_search"
DEFAULT_CHUNKS: Final = 10
DEFAULT_HITS: Final = 20
MAX_HITS: Final = 100
MAX_CHUNKS: Final = 50

_READ_ONLY: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_SEARCH_PARAMETERS: Final = build_search_parameters(DEFAULT_TOP_K)

TOOLS: Final = (
    Tool(
        name=SEARCH,
        description=(
            "Search knowledge bases for passages that answer a question. "
            "Each passage is returned as a separate text that begins with the line "
            "[document <id> · kb <kb_id> · chunk <n> · page <p> · strong, fair or weak] <title> > <headings> (<file>). "
            "A weak passage may be about something else. "
            "Consecutive chunks are merged into one passage, shown as chunks <n>-<m>."
        ),
        input_schema=_SEARCH_PARAMETERS
        | {
            "properties": {
                **_SEARCH_PARAMETERS["properties"],
                "kb_ids": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Ids of the knowledge bases to search. Default: all.",
                },
            }
        },
        annotations=_READ_ONLY,
    ),
    Tool(
        name=ENTRIES,
        description=(
            "Search the knowledge of the organization: rules, decisions, procedures and notes that people wrote, and "
            "pages that were fetched. Each hit is returned as a separate text that begins with the line "
            "[entry <id> · chunk <id> · strong, fair or weak] <title>. A weak hit may be about something else."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to search for: a sentence or a few words."},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_HITS,
                    "description": f"Maximum number of hits to return; {DEFAULT_HITS} by default.",
                },
                "types": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Search only entries of these types, such as rule, pattern or decision, or from "
                    "sources of these kinds.",
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        annotations=_READ_ONLY,
    ),
    Tool(
        name=LIST,
        description="List the knowledge bases, each with its id, status, name and description.",
        input_schema={"type": "object", "properties": {}, "additionalProperties": False},
        annotations=_READ_ONLY,
    ),
    Tool(
        name=CHUNKS,
        description=(
            "Read consecutive chunks of a document in a knowledge base, for example those before and after a passage "
            "that a search returned. If there are more chunks, the result gives the `skip` value for the next call."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "kb_id": {
                    "type": "string",
                    "description": "Id of the knowledge base, from a search result or from list_knowledge_bases.",
                },
                "document_id": {"type": "string", "description": "Id of the document, from a search result."},
                "skip": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Number of chunks to skip (index of the first chunk returned). Default 0.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_CHUNKS,
                    "description": f"Maximum number of chunks to return. Default {DEFAULT_CHUNKS}.",
                },
            },
            "required": ["kb_id", "document_id"],
            "additionalProperties": False,
        },
        annotations=_READ_ONLY,
    ),
)

_NAMES: Final = frozenset(tool.name for tool in TOOLS)

log = structlog.get_logger()


class _KnowledgeBaseSearchArguments(SearchArguments):
    kb_ids: Annotated[KbIds, Field(min_length=1)] | None = None


class _EntrySearchArguments(StrictModel):
    query: Annotated[str, Field(min_length=1, max_length=1_000), AfterValidator(storable)]
    limit: Annotated[int, Field(ge=1, le=MAX_HITS)] = DEFAULT_HITS
    types: Annotated[list[EntryType], Field(max_length=20)] = Field(default_factory=list)


class _NoArguments(StrictModel):
    pass


class _ChunksArguments(StrictModel):
    kb_id: RequestedKbId
    document_id: Identifier
    skip: Annotated[int, Field(ge=0, lt=2**31)] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_CHUNKS)] = DEFAULT_CHUNKS


class McpTools:
    """The MCP tools of one process."""

    def __init__(
        self,
        database: Database,
        search: KnowledgeBaseSearch,
        *,
        limits: RequestLimits,
        fair_queue: FairQueue,
        max_passage_tokens: int,
        entry_search: EntrySearch,
        management: Management,
    ) -> None:
        self._database = database
        self._entry_search = entry_search
        self._management = management
        self._search = search
        self._limits = limits
        self._fair_queue = fair_queue
        self._max_passage_tokens = max_passage_tokens

    def available_to(self, caller: Caller) -> list[Tool]:
        """Return the tools that the caller can call, with their descriptions."""
        return [*TOOLS, *self._management.available_to(caller)]

    async def call(self, caller: Caller, key: str, *, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call a tool. Errors are returned in the result, where the model sees them.

        Args:
            caller: Caller of the request.
            key: API key of the caller, with which the services are called that manage knowledge bases and entries.
            name: Name of the tool.
            arguments: Arguments as the model wrote them.
        """
        # A model may name any other tool.
        known = name if name in _NAMES or self._management.has_tool(name) else "unknown"
        attributes = {
            "mcp.method.name": "tools/call",
            "gen_ai.tool.name": known,
            "kb.organization_id": caller.organization_id,
        }
        with tracing.span(spans.MCP_CALL, attributes, of=known) as span:
            result = await self._call_or_explain(caller, key, name=name, arguments=arguments)
            if result.is_error:
                span.fail("tool_error")
            return result

    async def _call_or_explain(
        self, caller: Caller, key: str, *, name: str, arguments: Mapping[str, Any]
    ) -> CallToolResult:
        try:
            async with self._fair_queue.take_turn(caller.organization_id):
                if self._management.has_tool(name, of=caller):
                    return await self._management.call(caller, key, name=name, arguments=arguments)
                return await self._call_tool(caller, name, arguments)
        except UnusableCall as unusable:
            return _failure(str(unusable))
        except KbError as error:
            return _failure(as_request_error(error).detail)
        except PyMongoError:
            log.warning("mcp.failed", tool=name, exc_info=True)
            return _failure(as_request_error(TransientError("the database")).detail)

    async def _call_tool(self, caller: Caller, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        if name == SEARCH:
            search = read_arguments(_KnowledgeBaseSearchArguments, _with_kb_ids(arguments))
            return _noted(search, await self._search_knowledge_bases(caller, search.arguments))
        if name == ENTRIES:
            entries = read_arguments(_EntrySearchArguments, arguments)
            return _noted(entries, await self._search_entries(caller, entries.arguments))
        if name == LIST:
            nothing = read_arguments(_NoArguments, arguments)
            return _noted(nothing, await self._list_knowledge_bases(caller))
        if name == CHUNKS:
            chunks = read_arguments(_ChunksArguments, arguments)
            return _noted(chunks, await self._read_chunks(caller, chunks.arguments))
        available = ", ".join(tool.name for tool in self.available_to(caller))
        return _failure(f"Unknown tool. Available tools: {available}.")

    async def _search_knowledge_bases(self, caller: Caller, arguments: _KnowledgeBaseSearchArguments) -> CallToolResult:
        caller.check(Scope.SEARCH)
        await self._limits.count_request("search", caller)
        query = replace(
            arguments.to_query(default_top_k=DEFAULT_TOP_K, default_min_score=None), max_tokens=self._max_passage_tokens
        )
        answer = await self._search.search_several(
            caller.organization_id,
            kb_ids=arguments.kb_ids,
            query=query,
            search_caller=SearchCaller(caller.key_id, "mcp", kb_ids=caller.kb_ids),
            key=None,
        )
        return _success(*render_search_results(answer))

    async def _search_entries(self, caller: Caller, arguments: _EntrySearchArguments) -> CallToolResult:
        caller.check(Scope.SEARCH)
        await self._limits.count_request("search", caller)
        answer = await self._entry_search.search(
            caller.organization_id,
            arguments.query,
            limit=arguments.limit,
            types=arguments.types,
            search_caller=SearchCaller(caller.key_id, "mcp", kb_ids=caller.kb_ids),
            max_tokens=self._max_passage_tokens,
        )
        return _success(*render_entries(answer))

    async def _list_knowledge_bases(self, caller: Caller) -> CallToolResult:
        caller.check(Scope.READ)
        await self._limits.count_request("administration", caller)
        kbs = await knowledge_bases.find_of_organization(self._database, caller.organization_id)
        usable = [kb for kb in kbs if caller.may_use(kb.kb_id)]
        shown = await knowledge_bases.with_shown_status(self._database, caller.organization_id, usable)
        return _success(*render_knowledge_bases(shown))

    async def _read_chunks(self, caller: Caller, arguments: _ChunksArguments) -> CallToolResult:
        caller.check(Scope.READ)
        caller.require_knowledge_base(arguments.kb_id)
        # Reading chunks counts as a search.
        await self._limits.count_request("search", caller)
        read = await read_document_chunks(
            self._database,
            MembershipKey(caller.organization_id, arguments.kb_id, arguments.document_id),
            skip=arguments.skip,
            limit=arguments.limit,
            max_tokens=self._max_passage_tokens,
        )
        return _success(*render_document_chunks(read))


def _with_kb_ids(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a search with `kb_id`, as other tools call it, for `kb_ids`."""
    if "kb_id" not in arguments or arguments.get("kb_ids"):
        return arguments
    return {**{name: value for name, value in arguments.items() if name != "kb_id"}, "kb_ids": arguments["kb_id"]}


def _noted(read: ReadArguments[Arguments], result: CallToolResult) -> CallToolResult:
    """Return a result with what the model is told about its arguments."""
    notes = [TextContent(text=f"({note})") for note in read.notes]
    return result.model_copy(update={"content": [*result.content, *notes]}) if notes else result


def _success(blocks: Blocks, structured: Mapping[str, Any]) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=block) for block in blocks], structured_content=structured)


def _failure(detail: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=detail)], is_error=True)
