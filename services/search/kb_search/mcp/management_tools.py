"""Tools of the MCP endpoint that manage knowledge bases, for keys with the scope `write`.

kb-api carries them out, with the key of the caller: its checks, limits, quotas and audit log are those of the HTTP API.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

import httpx
import structlog
from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import BaseModel, Field

from kb_client.async_client.client import AsyncClient
from kb_client.errors import ApiError, KbClientError
from kb_contracts.api.memberships import DocumentStatus
from kb_contracts.api.model import StrictModel
from kb_contracts.identifiers import Identifier
from kb_search.runs.passages import remove_invisible_characters
from kb_shared.http.authentication import Caller

TIMEOUT_S: Final = 20.0
MAX_DOCUMENTS: Final = 50
_UNAVAILABLE: Final = (
    "The knowledge bases can't be managed at the moment. Try again in a minute; searching still works."
)

log = structlog.get_logger()

KbIdArgument = Annotated[
    str, Field(max_length=128, description="Id of the knowledge base, for example from list_knowledge_bases.")
]
NameArgument = Annotated[str, Field(min_length=1, max_length=200, description="Name that people see.")]
DescriptionArgument = Annotated[str, Field(max_length=2_000, description="What the knowledge base is about.")]
TagsArgument = Annotated[
    list[Identifier],
    Field(min_length=1, max_length=100, description="Ids of tags. Documents with one of them belong to it."),
]


class _ManagedKnowledgeBase(StrictModel):
    kb_id: KbIdArgument


class _CreationArguments(StrictModel):
    name: NameArgument
    tag_ids: TagsArgument
    description: DescriptionArgument = ""


class _UpdateArguments(_ManagedKnowledgeBase):
    name: NameArgument | None = None
    tag_ids: TagsArgument | None = None
    description: DescriptionArgument | None = None


class _ListingArguments(_ManagedKnowledgeBase):
    status: DocumentStatus = Field(default="indexed", description="State of the documents to list.")
    cursor: str | None = Field(default=None, max_length=1_000, description="`next_cursor` of the page before.")
    limit: int = Field(default=20, ge=1, le=MAX_DOCUMENTS, description="Number of documents of a page.")


async def _create(client: AsyncClient, arguments: _CreationArguments) -> BaseModel:
    return await client.knowledge_bases.create(
        name=arguments.name, tag_ids=arguments.tag_ids, description=arguments.description
    )


async def _get(client: AsyncClient, arguments: _ManagedKnowledgeBase) -> BaseModel:
    return await client.knowledge_bases.get(arguments.kb_id)


async def _update(client: AsyncClient, arguments: _UpdateArguments) -> BaseModel:
    changes: dict[str, Any] = arguments.model_dump(exclude={"kb_id"}, exclude_none=True)
    return await client.knowledge_bases.update(arguments.kb_id, **changes)


async def _delete(client: AsyncClient, arguments: _ManagedKnowledgeBase) -> BaseModel:
    return await client.knowledge_bases.delete(arguments.kb_id)


async def _reindex(client: AsyncClient, arguments: _ManagedKnowledgeBase) -> BaseModel:
    return await client.knowledge_bases.reindex(arguments.kb_id)


async def _stats(client: AsyncClient, arguments: _ManagedKnowledgeBase) -> BaseModel:
    return await client.knowledge_bases.get_stats(arguments.kb_id)


async def _list_documents(client: AsyncClient, arguments: _ListingArguments) -> BaseModel:
    return await client.knowledge_bases.list_documents(
        arguments.kb_id, status=arguments.status, cursor=arguments.cursor, limit=arguments.limit
    )


ManagementCall: TypeAlias = Callable[[AsyncClient, Any], Awaitable[BaseModel]]


@dataclass(frozen=True, slots=True)
class ManagementTool:
    """A tool that is one call of the HTTP API."""

    name: str
    description: str
    arguments: type[StrictModel]
    operation: ManagementCall
    annotations: ToolAnnotations

    def describe(self) -> Tool:
        return Tool(
            name=self.name,
            description=self.description,
            input_schema=_schema_of(self.arguments),
            annotations=self.annotations,
        )


def _schema_of(arguments: type[StrictModel]) -> dict[str, Any]:
    schema = arguments.model_json_schema()
    # Titles and the name of the class tell a model nothing.
    properties = {
        name: {key: value for key, value in described.items() if key != "title"}
        for name, described in schema["properties"].items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": schema.get("required", []),
        "additionalProperties": False,
    }


_READS: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_ADDS: Final = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
_CHANGES: Final = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)

MANAGEMENT_TOOLS: Final = {
    tool.name: tool
    for tool in (
        ManagementTool(
            "create_knowledge_base",
            "Create a knowledge base of all documents with one of the tags. They are indexed in the background; "
            "get_knowledge_base_stats shows the progress. Embedding costs SPUs.",
            _CreationArguments,
            _create,
            _ADDS,
        ),
        ManagementTool(
            "get_knowledge_base",
            "Read the settings and the status of a knowledge base.",
            _ManagedKnowledgeBase,
            _get,
            _READS,
        ),
        ManagementTool(
            "update_knowledge_base",
            "Change the name, the description or the tags of a knowledge base. Fields that are left out do not "
            "change. New tags add and remove documents; embedding those that are added costs SPUs.",
            _UpdateArguments,
            _update,
            _CHANGES,
        ),
        ManagementTool(
            "delete_knowledge_base",
            "Delete a knowledge base with its index. This can't be undone; the documents themselves stay. Ask the user "
            "first.",
            _ManagedKnowledgeBase,
            _delete,
            _CHANGES,
        ),
        ManagementTool(
            "list_documents",
            "List the documents of a knowledge base by status, with the error of those that could not be indexed.",
            _ListingArguments,
            _list_documents,
            _READS,
        ),
        ManagementTool(
            "reindex_knowledge_base",
            "Index all documents of a knowledge base again, in the background. Unchanged chunks cost nothing.",
            _ManagedKnowledgeBase,
            _reindex,
            _ADDS,
        ),
        ManagementTool(
            "get_knowledge_base_stats",
            "Read the numbers of documents and chunks, the progress of indexing and the sizes of a knowledge base.",
            _ManagedKnowledgeBase,
            _stats,
            _READS,
        ),
    )
}


class Management:
    """Carries out the management tools of one process through kb-api."""

    def __init__(self, kb_api_url: str) -> None:
        self._url = kb_api_url
        # The address is that of the deployment, not of a user.
        self._http = httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False)  # nosemgrep: provider-called-without-guard

    async def call(self, caller: Caller, key: str, *, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call a tool of `MANAGEMENT_TOOLS` with the key of the caller.

        Raises:
            ValidationError: The arguments are not those of the tool.
        """
        tool = MANAGEMENT_TOOLS[name]
        parsed = tool.arguments.model_validate(arguments)
        client = AsyncClient(
            self._url, organization=caller.organization_id, api_key=key, timeout_s=TIMEOUT_S, http=self._http
        )
        try:
            answer = await tool.operation(client, parsed)
        except ApiError as error:
            return CallToolResult(content=[TextContent(text=_explain(error))], is_error=True)
        except KbClientError as error:
            log.warning("mcp.management_unavailable", tool=name, error=type(error).__name__)
            return CallToolResult(content=[TextContent(text=_UNAVAILABLE)], is_error=True)
        fields = answer.model_dump(mode="json")
        text = remove_invisible_characters(json.dumps(fields, ensure_ascii=False, indent=1))
        return CallToolResult(content=[TextContent(text=text)], structured_content=fields)

    async def close(self) -> None:
        await self._http.aclose()


def _explain(error: ApiError) -> str:
    fields = "".join(f" {each.field}: {each.message}." for each in error.fields)
    return f"{error.detail}{fields}"
