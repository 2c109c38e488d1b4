"""A passage that an answer cites, with its neighbours: beside the answer, or as a page."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from kb_client.errors import ApiError
from kb_console.addresses import OF_ORGANIZATION
from kb_console.dependencies import Visit, Visitor
from kb_console.pages import render_page
from kb_contracts.api.memberships import ChunkView
from kb_contracts.api.runs import CitationView
from kb_shared.concurrency.concurrent_tasks import run_two_or_cancel

_WITH_NEIGHBOURS = 3
_GONE = frozenset({404, 410})

router = APIRouter(prefix=OF_ORGANIZATION)


@router.get("/knowledge-bases/{kb_id}/passages/{chunk_id}")
async def show_passage(
    request: Request,
    visit: Visitor,
    kb_id: str,
    chunk_id: str,
    *,
    document: Annotated[str, Query(min_length=1, max_length=200)],
    run: Annotated[str | None, Query(max_length=100)] = None,
) -> HTMLResponse:
    source: str | None = None
    chunks: list[ChunkView] = []
    cited: CitationView | None = None
    try:
        opened, page = await run_two_or_cancel(
            visit.api.knowledge_bases.get_chunk(kb_id, chunk_id=chunk_id),
            visit.api.knowledge_bases.list_chunks(kb_id, document_id=document, around=chunk_id, limit=_WITH_NEIGHBOURS),
        )
        source, chunks = opened.document_name, page.chunks
    except ApiError as error:
        if error.status not in _GONE or run is None:
            raise
        cited = await find_citation(visit, run_id=run, chunk_id=chunk_id)
        if cited is None:
            raise
        source = cited.source
    return render_page(
        request,
        "passage.html",
        part="_passage.html",
        kb_id=kb_id,
        chunk_id=chunk_id,
        document_id=document,
        run_id=run,
        source=source,
        chunks=chunks,
        citation=cited,
    )


async def find_citation(visit: Visit, *, run_id: str, chunk_id: str) -> CitationView | None:
    """Return a passage as a run has found it. The run keeps its text, whatever becomes of the document."""
    try:
        run = await visit.api.runs.get(run_id)
    except ApiError as error:
        if error.status in _GONE:
            return None
        raise
    found = list(run.citations)
    for call in run.tool_calls:
        found += [CitationView.model_validate(each) for each in call.get("passages", [])]
    return next((each for each in found if each.chunk_id == chunk_id), None)
