"""The list of knowledge bases; without any, the first steps."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from kb_client import AsyncClient
from kb_client.errors import ApiError
from kb_console.addresses import LIST, OF_ORGANIZATION
from kb_console.dependencies import Settings, Visitor
from kb_console.knowledge_bases.knowledge_base_batches import ACTIONS
from kb_console.pages import render_page
from kb_console.paging import ROWS, Paging
from kb_console.status_words import OF_KNOWLEDGE_BASE
from kb_contracts.api.knowledge_bases import KnowledgeBaseStats, KnowledgeBaseView, ShownStatus
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel

_MOST_WITH_PROGRESS: Final = 5

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

    is_filtered = bool(q or status or tag)
    is_first = not found.total_count and not is_filtered

    def address_of(**changed: object) -> str:
        return visit.address(LIST, **{"q": q, "status": status, "tag": tag, "sort": sort, **changed})

    return render_page(
        request,
        "first_steps.html" if is_first else "knowledge_base_list.html",
        part="_knowledge_base_list.html",
        found=found,
        progress=await _load_progress(visit.api, found.knowledge_bases),
        document_count=await _count_documents(visit.api) if is_first else None,
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
        today=datetime.now(UTC).date(),
    )


async def _load_progress(api: AsyncClient, kbs: Sequence[KnowledgeBaseView]) -> dict[str, KnowledgeBaseStats]:
    """Return how far those are that are being indexed, of the first few: each one costs a call."""
    kb_ids = [kb.kb_id for kb in kbs if kb.status == "indexing" and kb.paused_at is None][:_MOST_WITH_PROGRESS]
    found = await run_all_or_cancel([_find_stats(api, kb_id) for kb_id in kb_ids])
    return {kb_id: stats for kb_id, stats in zip(kb_ids, found, strict=True) if stats is not None}


async def _find_stats(api: AsyncClient, kb_id: str) -> KnowledgeBaseStats | None:
    try:
        return await api.knowledge_bases.get_stats(kb_id)
    except ApiError as error:
        # It was deleted meanwhile.
        if error.status != 404:
            raise
        return None


async def _count_documents(api: AsyncClient) -> int | None:
    """Count the documents of the organization; None if the key may not see all of them."""
    try:
        return (await api.documents.list(limit=1)).total_count
    except ApiError as error:
        if error.status != 403:
            raise
        return None
