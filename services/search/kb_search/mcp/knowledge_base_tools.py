"""Tools of the MCP endpoint that manage knowledge bases. kb-api carries them out."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from kb_client.async_client.client import AsyncClient
from kb_contracts.api.memberships import DocumentStatus
from kb_contracts.api.model import StrictModel, optional_change
from kb_contracts.identifiers import Identifier
from kb_search.mcp.management_tool import ADDS, CHANGES, READS, ManagementTool

MAX_DOCUMENTS: Final = 50

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
    name: NameArgument = optional_change()
    tag_ids: TagsArgument = optional_change()
    description: DescriptionArgument = optional_change()


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
    changes: dict[str, Any] = arguments.model_dump(exclude={"kb_id"}, exclude_unset=True)
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


KNOWLEDGE_BASE_TOOLS: Final = (
    ManagementTool(
        "create_knowledge_base",
        "Create a knowledge base of all documents with one of the tags. They are indexed in the background; "
        "get_knowledge_base_stats shows the progress. Embedding costs SPUs.",
        _CreationArguments,
        _create,
        ADDS,
    ),
    ManagementTool(
        "get_knowledge_base",
        "Read the settings and the status of a knowledge base.",
        _ManagedKnowledgeBase,
        _get,
        READS,
    ),
    ManagementTool(
        "update_knowledge_base",
        "Change the name, the description or the tags of a knowledge base. Fields that are left out do not "
        "change. New tags add and remove documents; embedding those that are added costs SPUs.",
        _UpdateArguments,
        _update,
        CHANGES,
    ),
    ManagementTool(
        "delete_knowledge_base",
        "Delete a knowledge base with its index. This can't be undone; the documents themselves stay. Ask the user "
        "first.",
        _ManagedKnowledgeBase,
        _delete,
        CHANGES,
    ),
    ManagementTool(
        "list_documents",
        "List the documents of a knowledge base by status, with the error of those that could not be indexed.",
        _ListingArguments,
        _list_documents,
        READS,
    ),
    ManagementTool(
        "reindex_knowledge_base",
        "Index all documents of a knowledge base again, in the background. Unchanged chunks cost nothing.",
        _ManagedKnowledgeBase,
        _reindex,
        ADDS,
    ),
    ManagementTool(
        "get_knowledge_base_stats",
        "Read the numbers of documents and chunks, the progress of indexing and the sizes of a knowledge base.",
        _ManagedKnowledgeBase,
        _stats,
        READS,
    ),
)
