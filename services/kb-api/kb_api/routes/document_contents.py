"""Routes that list the documents of an organization and read what is in them."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Annotated, Final

from fastapi import Query

from kb_api.dependencies import Cursors, Database, DocumentReader, Reader
from kb_api.documents_of_organization import (
    DocumentsWanted,
    OrganizationDocument,
    find_placements,
    list_page,
    position_of,
)
from kb_api.passages import read_chunks
from kb_api.read_text import read_text
from kb_api.routes.documents_in_kb import Around, chunk_list
from kb_api.routes.knowledge_bases import NameSearch, document_error
from kb_contracts.api.document_lists import (
    DocumentListFilter,
    DocumentPage,
    DocumentSort,
    DocumentSummary,
    PlacementView,
)
from kb_contracts.api.document_texts import MAX_CHARACTERS, DocumentText
from kb_contracts.api.memberships import ChunkList, DocumentStatus
from kb_shared.concurrency.concurrent_tasks import run_three_or_cancel
from kb_shared.http.cursors import CursorParameter, CursorScope
from kb_shared.http.limited_keys import open_to_limited_keys
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.problems import invalid_field, responses
from kb_shared.http.routing import organization_router
from kb_shared.mongo import document_texts, documents, index_jobs
from kb_shared.mongo.keys import DocumentKey, MembershipKey

router = organization_router("documents")

_IS_INDEXED: Final[frozenset[DocumentStatus]] = frozenset({"indexed", "empty"})
_DOCUMENT_ID: Final = r"[A-Za-z0-9._-]{1,128}"
DocumentIds = Annotated[
    str | None,
    Query(
        max_length=6_500,
        pattern=rf"^{_DOCUMENT_ID}(,{_DOCUMENT_ID}){{0,49}}$",
        description="Only these documents: up to 50 ids, joined by commas.",
    ),
]


@router.get("/documents", operation_id="documents.list", summary="List documents", response_model=DocumentPage)
async def list_all(
    database: Database,
    cursors: Cursors,
    caller: Reader,
    *,
    cursor: CursorParameter = None,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
    name_search: NameSearch = None,
    tag_id: Annotated[str | None, Query(min_length=1, max_length=128, description="Only with this tag.")] = None,
    id_prefix: Annotated[
        str | None,
        Query(min_length=1, max_length=128, description="Only documents whose ids begin with this, exactly."),
    ] = None,
    document_ids: DocumentIds = None,
    status: Annotated[
        DocumentListFilter | None,
        Query(
            description="`available`, `waiting_for_text` and `deleted`: state of the document itself. `indexed`, "
            "`empty`, `pending`, `running`, `failed` and `paused`: state in at least one knowledge base, or in "
            "`kb_id`. Default: all but deleted documents."
        ),
    ] = None,
    kb_id: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=128,
            description="Only documents that this knowledge base contains; with a `status` of open work, those with "
            "work for it.",
        ),
    ] = None,
    in_no_kb: Annotated[bool, Query(description="Only documents that no knowledge base contains.")] = False,
    sort: Annotated[DocumentSort, Query(description="Field to sort by; `-` means descending.")] = "document_id",
) -> DocumentPage:
    """List the documents of the organization, with the knowledge bases that each is in."""
    if in_no_kb and (kb_id is not None or status in ("indexed", "empty")):
        raise invalid_field("in_no_kb", "must be left out with `kb_id` or the status `indexed` or `empty`")
    wanted = DocumentsWanted(
        status=status,
        tag_id=tag_id,
        id_prefix=id_prefix,
        document_ids=None if document_ids is None else tuple(document_ids.split(",")),
        name_search=name_search,
        kb_id=kb_id,
        in_no_kb=in_no_kb,
    )
    scope = CursorScope(caller.organization_id, "documents", asdict(wanted) | {"sort": sort})
    after = cursors.read(scope, cursor, skip=skip)
    found, total_count = await list_page(
        database, caller.organization_id, wanted, sort=sort, after=after, skip=skip, limit=limit
    )
    ids = [each.document_id for each in found]
    placements, warned, sizes = await run_three_or_cancel(
        find_placements(database, caller.organization_id, document_ids=ids),
        documents.find_with_warnings(database, caller.organization_id, document_ids=ids),
        document_texts.find_sizes_bytes(
            database, caller.organization_id, [each.text_id for each in found if each.text_id is not None]
        ),
    )
    unfinished = [each for each, states in placements.items() if not _IS_INDEXED.issuperset(states.values())]
    errors = await index_jobs.find_errors(database, caller.organization_id, document_ids=unfinished)
    return DocumentPage(
        documents=[
            _summary(
                each,
                _placements(placements.get(each.document_id, {}), errors.get(each.document_id, {})),
                text_bytes=sizes.get(each.text_id or ""),
                has_warnings=each.document_id in warned,
            )
            for each in found
        ],
        total_count=total_count,
        next_cursor=cursors.create_next(scope, found, limit=limit, position=partial(position_of, sort=sort)),
    )


@router.get(
    "/documents/{document_id}/text",
    operation_id="documents.get_text",
    summary="Read the text of a document",
    response_model=DocumentText,
    responses=responses("text-being-replaced"),
)
async def get_text(
    database: Database,
    caller: DocumentReader,
    document_id: str,
    *,
    start: Annotated[int, Query(ge=0, lt=2**31, description="Position of the first character. Default: 0.")] = 0,
    end: Annotated[
        int | None,
        Query(
            ge=0,
            lt=2**31,
            description=f"Position after the last character. Default, and at most: `start` plus {MAX_CHARACTERS}.",
        ),
    ] = None,
) -> DocumentText:
    """Return a part of the stored text, to which the positions of chunks and citations refer."""
    if end is not None and end < start:
        raise invalid_field("end", "must not be less than `start`")
    end = min(start + MAX_CHARACTERS, start + MAX_CHARACTERS if end is None else end)
    return await read_text(database, DocumentKey(caller.organization_id, document_id), start=start, end=end)


@router.get(
    "/documents/{document_id}/chunks",
    operation_id="documents.list_chunks",
    summary="List the chunks of a document in a knowledge base",
    response_model=ChunkList,
)
@open_to_limited_keys
async def list_chunks(
    database: Database,
    caller: Reader,
    document_id: str,
    kb_id: Annotated[str, Query(min_length=1, max_length=128, description="Knowledge base that contains it.")],
    *,
    around: Around = None,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
) -> ChunkList:
    """Return the chunks of a document as they are indexed now, with texts and positions, without vectors."""
    caller.require_knowledge_base(kb_id)
    key = MembershipKey(caller.organization_id, kb_id, document_id)
    return chunk_list(await read_chunks(database, key, around=around, skip=skip, limit=limit))


def _placements(statuses: Mapping[str, DocumentStatus], errors: Mapping[str, tuple[str, str]]) -> list[PlacementView]:
    return [
        PlacementView(kb_id=kb_id, status=status, error=document_error(*errors.get(kb_id, (None, None))))
        for kb_id, status in sorted(statuses.items())
    ]


def _summary(
    document: OrganizationDocument,
    placements: list[PlacementView],
    *,
    text_bytes: int | None,
    has_warnings: bool,
) -> DocumentSummary:
    return DocumentSummary(
        document_id=document.document_id,
        document_name=document.document_name,
        state=document.stage,
        tag_ids=document.tag_ids,
        upload_date=document.upload_date,
        content_type=document.content_type,
        source_digest=document.source_digest,
        text_revision=document.text_revision,
        text_bytes=text_bytes,
        changed_at=document.changed_at,
        knowledge_bases=placements,
        has_warnings=has_warnings,
    )
