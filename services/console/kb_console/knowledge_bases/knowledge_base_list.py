"""The list of knowledge bases; without any, the first steps."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from kb_console.addresses import LIST, OF_ORGANIZATION
from kb_console.dependencies import Settings, Visitor
from kb_console.knowledge_bases.knowledge_base_batches import ACTIONS
from kb_console.pages import render_page
from kb_console.paging import ROWS, Paging
from kb_console.status_words import OF_KNOWLEDGE_BASE
from kb_contracts.api.knowledge_bases import ShownStatus

router = APIRouter(prefix=OF_ORGANIZATION)

ListOrder = Literal[
    "name",
    "-name",
    "document_count",
    "-document_count",
    "chunk_count",
    "-chunk_count",
    "created_at",
    "-created_at",
    "last_searched_at",
    "-last_searched_at",
    "",
]


@router.get("/knowledge-bases")
async def list_knowledge_bases(
    request: Request,
    visit: Visitor,
    settings: Settings,
    *,
    paging: Paging,
    q: Annotated[str, Query(max_length=200)] = "",
    status: ShownStatus | Literal[""] = "",
    tag: Annotated[str, Query(max_length=200)] = "",
    sort: ListOrder = "",
    done: Annotated[str, Query(max_length=40)] = "",
) -> HTMLResponse:
    found = await visit.api.knowledge_bases.list(
        name_search=q or None,
        status=status or None,
        tag_id=tag or None,
        sort=sort or None,
        skip=paging.skip,
        limit=ROWS,
    )

    def address_of(**changed: object) -> str:
        return visit.address(LIST, **{"q": q, "status": status, "tag": tag, "sort": sort, **changed})

    is_filtered = bool(q or status or tag)
    return render_page(
        request,
        "knowledge_base_list.html" if found.total_count or is_filtered else "first_steps.html",
        part="_knowledge_base_list.html",
        found=found,
        paging=paging,
        q=q,
        status=status,
        tag=tag,
        sort=sort,
        done=done,
        batch_actions=ACTIONS,
        is_filtered=is_filtered,
        statuses=[("", "any"), *((value, state.words) for value, state in OF_KNOWLEDGE_BASE.items())],
        address_of_page=lambda page: address_of(page=page),
        address_of_sort=lambda by: address_of(sort=by),
        address_of_list=address_of(page=paging.page if paging.page > 1 else None),
        base_url=settings.base_url,
    )
