from datetime import datetime
from typing import Annotated, Final

from fastapi import Query, Response
from pydantic import BaseModel, Field, StringConstraints

from kb_api.change_knowledge_base import change_knowledge_base
from kb_api.delete_knowledge_base import delete_knowledge_base
from kb_api.dependencies import Database, KnowledgeBaseCreator, LifeCycle, Reader, Settings, Writer
from kb_api.documents_of_knowledge_base import IndexStatus, ListedDocument, OpenJobStatus, StatusFilter, list_documents
from kb_api.knowledge_base_request import ChangeKnowledgeBase, CreateKnowledgeBase
from kb_api.knowledge_base_response import KnowledgeBaseList, KnowledgeBaseView, ShownStatus
from kb_shared.http.limited_keys import key_limited, open_to_limited_keys
from kb_shared.http.model import DEFAULT_LIMIT, Limit, MessageResponse, Skip
from kb_shared.http.preconditions import IfMatch, set_etag
from kb_shared.http.problems import responses
from kb_shared.http.routing import organization_router
from kb_shared.mongo import document_index, documents, kb_slots, knowledge_bases, search_indexes, spu_ledger, tags
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Sort

router = organization_router("knowledge bases")

# MongoDB refuses NUL in a regular expression.
NameSearch = Annotated[
    Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]*$")] | None,
    Query(description="Part of the name. Upper and lower case are equal."),
]


@router.post(
    "/knowledge-bases",
    summary="Create a knowledge base",
    status_code=201,
    response_model=KnowledgeBaseView,
    responses=responses(402, 409),
)
async def create(
    creator: KnowledgeBaseCreator, caller: Writer, body: CreateKnowledgeBase, response: Response
) -> KnowledgeBaseView:
    """Create a knowledge base.

    It can be searched as soon as its search indexes are built, while documents are still being indexed.
    """
    kb = await creator.create(caller, body)
    set_etag(response, kb.version)
    response.headers["Location"] = f"/v0/orgs/{kb.organization_id}/knowledge-bases/{kb.kb_id}"
    return KnowledgeBaseView.from_knowledge_base(kb, documents=0, chunks=0)


@router.get("/knowledge-bases", summary="List knowledge bases", response_model=KnowledgeBaseList)
@open_to_limited_keys
async def list_all(
    database: Database,
    caller: Reader,
    *,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
    name_search: NameSearch = None,
    status: Annotated[ShownStatus | None, Query(description="Only knowledge bases with this status.")] = None,
    sort: Annotated[Sort, Query(description="Field to sort by; `-` means descending.")] = "-created_at",
) -> KnowledgeBaseList:
    """List the knowledge bases of the organization."""
    kbs, total_count = await knowledge_bases.find_page(
        database,
        caller.organization_id,
        skip=skip,
        limit=limit,
        sort=sort,
        status=status,
        name_search=name_search,
        kb_ids=caller.kb_ids,
    )
    return KnowledgeBaseList(
        knowledge_bases=await views(database, caller.organization_id, kbs), total_count=total_count
    )


@router.get("/knowledge-bases/{kb_id}", summary="Get a knowledge base", response_model=KnowledgeBaseView)
async def get(database: Database, caller: Reader, kb_id: str, response: Response) -> KnowledgeBaseView:
    """Return the configuration, the status and the size of a knowledge base.

    The header `ETag` is that of the configuration: it changes with `PUT`, and when the knowledge base is paused or
    resumed.
    """
    kb = await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id))
    set_etag(response, kb.version)
    return (await views(database, caller.organization_id, [kb]))[0]


@router.put(
    "/knowledge-bases/{kb_id}",
    summary="Change a knowledge base",
    response_model=KnowledgeBaseView,
    responses=responses(409, 412),
)
async def change(
    database: Database,
    life_cycle: LifeCycle,
    settings: Settings,
    caller: Writer,
    *,
    kb_id: str,
    body: ChangeKnowledgeBase,
    if_match: IfMatch,
    response: Response,
) -> KnowledgeBaseView:
    """Change the given fields.

    After a change of `tag_ids` the status is `indexing` until every document is added or removed. The same applies
    to a higher `max_chunks_per_document`, until the documents that had too many chunks are indexed.
    """
    if caller.kb_ids is not None and "tag_ids" in body.model_fields_set:
        # With other tags it would contain, and show, any document of the organization.
        raise key_limited("Tags decide which documents of the organization the knowledge base contains")
    kb = await change_knowledge_base(
        database,
        caller,
        kb_id=kb_id,
        requested=body,
        expected=if_match,
        max_chunks_limit=settings.max_chunks_per_document,
        life_cycle=life_cycle,
    )
    set_etag(response, kb.version)
    return (await views(database, caller.organization_id, [kb]))[0]


@router.delete("/knowledge-bases/{kb_id}", summary="Delete a knowledge base", response_model=MessageResponse)
async def delete(database: Database, life_cycle: LifeCycle, caller: Writer, kb_id: str) -> MessageResponse:
    """Delete a knowledge base with its chunks and search indexes. Its documents remain in the organization."""
    await delete_knowledge_base(database, caller, kb_id=kb_id, life_cycle=life_cycle)
    return MessageResponse(message="Knowledge base deleted successfully")


async def views(database: Database, organization_id: str, kbs: list[KnowledgeBase]) -> list[KnowledgeBaseView]:
    totals = await kb_slots.sum_counters(database, organization_id, kb_ids=[kb.kb_id for kb in kbs])
    dead_tags = await tags.find_deleted(
        database, organization_id, tag_ids={tag_id for kb in kbs for tag_id in kb.tag_ids}
    )
    nothing: Final = (0, 0)
    return [
        KnowledgeBaseView.from_knowledge_base(kb, documents=counted[0], chunks=counted[1], dead_tags=dead_tags)
        for kb in kbs
        for counted in [totals.get(kb.kb_id, nothing)]
    ]


class DocumentError(BaseModel):
    type: str = Field(description="Kind of error, as a stable slug.")
    message: str = Field(description="Explanation of the error for people.")

    @classmethod
    def from_fields(cls, error_type: str | None, message: str | None) -> "DocumentError | None":
        return cls(type=error_type, message=message or "") if error_type else None


class ListedDocumentView(BaseModel):
    document_id: str
    document_name: str | None = Field(description="Name of the document; null until its text has come.")
    status: IndexStatus | OpenJobStatus = Field(description="State of the document in the knowledge base.")
    chunk_count: int = Field(
        description="Number of chunks that are searchable now, also while a newer text is being indexed."
    )
    indexed_at: datetime | None = Field(
        description="Time at which the document was last indexed; null if it is not indexed."
    )
    attempts: int = Field(description="Number of attempts of the open job.")
    error: DocumentError | None = Field(description="Error of the last attempt; null if there is none.")
    next_attempt_at: datetime | None = Field(
        description="Time of the next attempt; null if it can begin now or none is planned."
    )

    @classmethod
    def from_listed(cls, listed: ListedDocument) -> "ListedDocumentView":
        return cls(
            document_id=listed.document_id,
            document_name=listed.document_name,
            status=listed.status,
            chunk_count=listed.chunk_count,
            indexed_at=listed.indexed_at,
            attempts=listed.attempts,
            error=DocumentError.from_fields(listed.error_type, listed.error_message),
            next_attempt_at=listed.next_attempt_at,
        )


class DocumentList(BaseModel):
    documents: list[ListedDocumentView]
    total_count: int = Field(description="Number of items on all pages.")


@router.get(
    "/knowledge-bases/{kb_id}/documents", summary="List the documents of a knowledge base", response_model=DocumentList
)
async def list_its_documents(
    database: Database,
    caller: Reader,
    kb_id: str,
    *,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
    status: Annotated[
        StatusFilter | None,
        Query(description="Only documents with this status. `all`: also those that are not indexed yet."),
    ] = None,
    name_search: NameSearch = None,
) -> DocumentList:
    """List documents of a knowledge base: by default those that are indexed.

    With `status=all` documents that are not indexed yet are included, and an open job decides the status that is shown.
    """
    kb = await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id))
    listed, total_count = await list_documents(database, kb, status, name_search=name_search, skip=skip, limit=limit)
    return DocumentList(documents=[ListedDocumentView.from_listed(one) for one in listed], total_count=total_count)


class SearchIndexView(BaseModel):
    name: str
    status: str = Field(description="Status as MongoDB reports it, such as `READY`.")
    queryable: bool = Field(description="Whether the index can answer searches.")


class KnowledgeBaseStats(BaseModel):
    document_count: int = Field(description="Number of indexed documents.")
    chunk_count: int = Field(description="Number of searchable chunks.")
    total_documents_with_tags: int = Field(description="Number of documents that have a tag of the knowledge base.")
    last_indexed_at: datetime | None = Field(description="Time at which a document was last indexed; null if none was.")
    spus: int = Field(description="SPUs charged for the knowledge base so far.")
    search_indexes: list[SearchIndexView]


@router.get(
    "/knowledge-bases/{kb_id}/stats", summary="Get statistics of a knowledge base", response_model=KnowledgeBaseStats
)
async def stats(database: Database, caller: Reader, kb_id: str) -> KnowledgeBaseStats:
    """Return counts of the knowledge base, the SPUs charged for it, and the state of its search indexes."""
    kb = await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id))
    totals = await kb_slots.sum_counters(database, kb.organization_id, kb_ids=[kb.kb_id])
    document_count, chunk_count = totals.get(kb.kb_id, (0, 0))
    return KnowledgeBaseStats(
        document_count=document_count,
        chunk_count=chunk_count,
        total_documents_with_tags=await documents.count_with_tags(database, kb.organization_id, tag_ids=kb.tag_ids),
        last_indexed_at=await document_index.find_last_indexed_at(database, kb.key),
        spus=await spu_ledger.sum_spus(database, kb.organization_id, kb_id=kb.kb_id),
        search_indexes=[
            SearchIndexView(name=index.name, status=index.status, queryable=index.queryable)
            for index in await search_indexes.list_indexes(database[kb.vector_collection])
        ],
    )
