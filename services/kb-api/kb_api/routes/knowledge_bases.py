from typing import Annotated, Final

from fastapi import Query, Response
from pydantic import StringConstraints

from kb_api.change_knowledge_base import change_knowledge_base
from kb_api.delete_knowledge_base import delete_knowledge_base
from kb_api.dependencies import Cursors, Database, KnowledgeBaseCreator, LifeCycle, Reader, Settings, Writer
from kb_api.documents_of_knowledge_base import ListedDocument, list_documents
from kb_api.knowledge_base_request import RequestedChange
from kb_api.knowledge_base_response import knowledge_base_view
from kb_api.knowledge_base_stats import load_stats
from kb_contracts.api.knowledge_bases import (
    CreateKnowledgeBase,
    KnowledgeBaseList,
    KnowledgeBaseStats,
    KnowledgeBaseView,
    ShownStatus,
)
from kb_contracts.api.memberships import (
    DocumentError,
    DocumentList,
    ListedDocumentSort,
    ListedDocumentView,
    StatusFilter,
)
from kb_contracts.api.model import MessageResponse
from kb_contracts.identifiers import Identifier
from kb_shared.http.cursors import CursorParameter, CursorScope
from kb_shared.http.limited_keys import key_limited, open_to_limited_keys
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.preconditions import IfMatch, set_etag
from kb_shared.http.problems import responses
from kb_shared.http.routing import organization_router
from kb_shared.mongo import documents, kb_slots, knowledge_bases, tags
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Sort, Status

router = organization_router("knowledge bases")

# MongoDB refuses NUL in a regular expression.
NameSearch = Annotated[
    Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]*$")] | None,
    Query(description="Part of the name. Upper and lower case are equal."),
]


@router.post(
    "/knowledge-bases",
    operation_id="knowledge_bases.create",
    summary="Create a knowledge base",
    status_code=201,
    response_model=KnowledgeBaseView,
    responses=responses(
        "budget-exhausted",
        "chunker-unavailable",
        "kb-limit",
        "outcome-unknown",
        "provider-key-missing",
        "provider-refused",
        "provider-unavailable",
        "reserved-id",
        "unknown-model",
        "unknown-price",
        "unknown-tag",
    ),
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
    return knowledge_base_view(kb, documents=0, chunks=0)


@router.get(
    "/knowledge-bases",
    operation_id="knowledge_bases.list",
    summary="List knowledge bases",
    response_model=KnowledgeBaseList,
)
@open_to_limited_keys
async def list_all(
    database: Database,
    settings: Settings,
    caller: Reader,
    *,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
    name_search: NameSearch = None,
    status: Annotated[ShownStatus | None, Query(description="Only knowledge bases with this status.")] = None,
    tag_id: Annotated[Identifier | None, Query(description="Only knowledge bases with this tag.")] = None,
    sort: Annotated[Sort, Query(description="Field to sort by; `-` means descending.")] = "-created_at",
) -> KnowledgeBaseList:
    """List the knowledge bases of the organization."""
    kbs, total_count = await knowledge_bases.find_page(
        database,
        caller.organization_id,
        skip=skip,
        limit=limit,
        sort=sort,
        status=None if status is None else Status(status),
        name_search=name_search,
        tag_id=tag_id,
        kb_ids=caller.kb_ids,
    )
    return KnowledgeBaseList(
        knowledge_bases=await views(database, caller.organization_id, kbs),
        total_count=total_count,
        allowed_count=settings.max_knowledge_bases,
    )


@router.get(
    "/knowledge-bases/{kb_id}",
    operation_id="knowledge_bases.get",
    summary="Get a knowledge base",
    response_model=KnowledgeBaseView,
)
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
    operation_id="knowledge_bases.update",
    summary="Change a knowledge base",
    response_model=KnowledgeBaseView,
    responses=responses(
        "concurrent-change",
        "immutable-field",
        "knowledge-kb-fixed",
        "precondition-failed",
        "reserved-id",
        "unknown-tag",
    ),
)
async def change(
    database: Database,
    life_cycle: LifeCycle,
    settings: Settings,
    caller: Writer,
    *,
    kb_id: str,
    body: RequestedChange,
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


@router.delete(
    "/knowledge-bases/{kb_id}",
    operation_id="knowledge_bases.delete",
    summary="Delete a knowledge base",
    response_model=MessageResponse,
    responses=responses("knowledge-kb-fixed"),
)
async def delete(database: Database, life_cycle: LifeCycle, caller: Writer, kb_id: str) -> MessageResponse:
    """Delete a knowledge base with its chunks and search indexes. Its documents remain in the organization."""
    await delete_knowledge_base(database, caller, kb_id=kb_id, life_cycle=life_cycle)
    return MessageResponse(message="Knowledge base deleted successfully")


async def views(database: Database, organization_id: str, kbs: list[KnowledgeBase]) -> list[KnowledgeBaseView]:
    kbs = await knowledge_bases.with_shown_status(database, organization_id, kbs)
    totals = await kb_slots.sum_counters(database, organization_id, kb_ids=[kb.kb_id for kb in kbs])
    dead_tags = await tags.find_deleted(
        database, organization_id, tag_ids={tag_id for kb in kbs for tag_id in kb.tag_ids}
    )
    nothing: Final = (0, 0)
    return [
        knowledge_base_view(kb, documents=counted[0], chunks=counted[1], dead_tags=dead_tags)
        for kb in kbs
        for counted in [totals.get(kb.kb_id, nothing)]
    ]


@router.get(
    "/knowledge-bases/{kb_id}/documents",
    operation_id="knowledge_bases.list_documents",
    summary="List the documents of a knowledge base",
    response_model=DocumentList,
)
async def list_its_documents(
    database: Database,
    cursors: Cursors,
    caller: Reader,
    *,
    kb_id: str,
    cursor: CursorParameter = None,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
    status: Annotated[
        StatusFilter | None,
        Query(description="Only documents with this status. `all`: also those that are not indexed yet."),
    ] = None,
    name_search: NameSearch = None,
    sort: Annotated[
        ListedDocumentSort,
        Query(description="Field to sort by; `-` means descending. Pages in the order of ids alone have a cursor."),
    ] = "document_id",
) -> DocumentList:
    """List documents of a knowledge base: by default those that are indexed.

    With `status=all` documents that are not indexed yet are included, and an open job decides the status that is shown.
    """
    kb = await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id))
    filters = {"kb_id": kb_id, "status": status, "name_search": name_search, "sort": sort}
    scope = CursorScope(caller.organization_id, "documents-of-kb", filters)
    after = cursors.read(scope, cursor, skip=skip)
    listed, total_count = await list_documents(
        database, kb, status, name_search=name_search, sort=sort, after=after, skip=skip, limit=limit
    )
    warned = await documents.find_with_warnings(
        database, caller.organization_id, document_ids=[one.document_id for one in listed]
    )
    next_cursor = None
    if sort == "document_id":
        next_cursor = cursors.create_next(scope, listed, limit=limit, position=lambda one: one.document_id)
    return DocumentList(
        documents=[_listed_view(one, has_warnings=one.document_id in warned) for one in listed],
        total_count=total_count,
        next_cursor=next_cursor,
    )


@router.get(
    "/knowledge-bases/{kb_id}/stats",
    operation_id="knowledge_bases.get_stats",
    summary="Get statistics of a knowledge base",
    response_model=KnowledgeBaseStats,
    responses=responses("search-unavailable"),
)
async def stats(database: Database, caller: Reader, kb_id: str) -> KnowledgeBaseStats:
    """Return the documents of the knowledge base by state, how far and how fast they are indexed, cost and sizes."""
    return await load_stats(database, KnowledgeBaseKey(caller.organization_id, kb_id))


def _listed_view(listed: ListedDocument, *, has_warnings: bool) -> ListedDocumentView:
    return ListedDocumentView(
        document_id=listed.document_id,
        document_name=listed.document_name,
        status=listed.status,
        chunk_count=listed.chunk_count,
        embedding=listed.embedding,
        indexed_at=listed.indexed_at,
        attempts=listed.attempts,
        error=document_error(listed.error_type, listed.error_message),
        next_attempt_at=listed.next_attempt_at,
        has_warnings=has_warnings,
    )


def document_error(error_type: str | None, message: str | None) -> DocumentError | None:
    return DocumentError(type=error_type, message=message or "") if error_type else None
