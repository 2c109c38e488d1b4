"""Documents of a knowledge base: the list with uploads, and one document with its passages."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client.errors import ApiError
from kb_console.addresses import LIST, OF_ORGANIZATION
from kb_console.chat.passage_routes import find_citation
from kb_console.dependencies import Uploads, Visit, Visitor
from kb_console.documents.document_facts import CITATION_DAYS, DocumentFacts, load_facts
from kb_console.documents.document_text import TextBand, lay_out, lay_out_without_text, pages_of
from kb_console.documents.document_uploads import take_files, upload_values
from kb_console.documents.error_remedies import REMEDIES
from kb_console.pages import is_partial, render_page
from kb_console.paging import ROWS, Paging
from kb_console.status_words import OF_DOCUMENT, is_unfinished
from kb_contracts.api.memberships import ChunkList, ExplanationView, ListedDocumentSort, StatusFilter
from kb_contracts.api.runs import CitationView
from kb_shared.concurrency.concurrent_tasks import run_three_or_cancel, run_two_or_cancel

CHUNKS = 50
_MOST_CHUNKS = 1_000_000
_DOCUMENTS = "/knowledge-bases/{kb_id}/documents"
_DOCUMENT = _DOCUMENTS + "/{document_id}"
_CHANGING = frozenset({"pending", "running"})

router = APIRouter(prefix=OF_ORGANIZATION)


@router.get(_DOCUMENTS)
async def list_documents(
    request: Request,
    visit: Visitor,
    kb_id: str,
    *,
    uploads: Uploads,
    paging: Paging,
    q: Annotated[str, Query(max_length=200)] = "",
    status: StatusFilter = "all",
    sort: ListedDocumentSort | Literal[""] = "",
    done: Annotated[str, Query(max_length=40)] = "",
) -> HTMLResponse:
    kb, found = await run_two_or_cancel(
        visit.api.knowledge_bases.get(kb_id),
        visit.api.knowledge_bases.list_documents(
            kb_id,
            status=status,
            name_search=q or None,
            sort=sort or None,
            skip=paging.skip,
            limit=ROWS,
        ),
    )

    def address_of(**changed: object) -> str:
        return visit.address(LIST, kb_id, "documents", **{"q": q, "status": status, "sort": sort, **changed})

    return render_page(
        request,
        "documents.html",
        part="_documents.html",
        kb=kb,
        found=found,
        paging=paging,
        q=q,
        status=status,
        done=done,
        statuses=[
            ("all", "any"),
            *((name, OF_DOCUMENT[name].words) for name in OF_DOCUMENT if name != "not_in_knowledge_base"),
        ],
        sort=sort,
        remedies=REMEDIES,
        **upload_values(uploads),
        address_of_page=lambda page: address_of(page=page),
        address_of_sort=lambda by: address_of(sort=by),
        address_of_list=address_of(page=paging.page if paging.page > 1 else None),
        changes_by_itself=any(document.status in _CHANGING for document in found.documents) or is_unfinished(kb),
    )


@router.post(_DOCUMENTS + "/uploads")
async def upload(request: Request, visit: Visitor, uploads: Uploads, kb_id: str) -> Response:
    """Take files that get a tag of the knowledge base."""
    return await take_files(request, visit, uploads, then=visit.address(LIST, kb_id, "documents", done="uploaded"))


@router.post(_DOCUMENT + "/retry")
async def retry(visit: Visitor, kb_id: str, document_id: str) -> Response:
    await visit.api.knowledge_bases.retry_document(kb_id, document_id=document_id)
    return RedirectResponse(visit.address(LIST, kb_id, "documents", document_id, done="retried"), 303)


@router.post(_DOCUMENT + "/reindex")
async def reindex(visit: Visitor, kb_id: str, document_id: str) -> Response:
    await visit.api.knowledge_bases.reindex_document(kb_id, document_id=document_id)
    return RedirectResponse(visit.address(LIST, kb_id, "documents", document_id, done="reindexed"), 303)


@router.get(_DOCUMENT)
async def show_document(
    request: Request,
    visit: Visitor,
    kb_id: str,
    document_id: str,
    *,
    chunk: Annotated[int, Query(ge=0, le=_MOST_CHUNKS)] = 0,
    more: bool = False,
    cited: Annotated[str | None, Query(max_length=300)] = None,
    run: Annotated[str | None, Query(max_length=100)] = None,
    done: Annotated[str, Query(max_length=40)] = "",
) -> HTMLResponse:
    """Show a document, from a chunk on; `more` chunks are asked for while somebody scrolls."""
    facts, explained, chunks = await run_three_or_cancel(
        _facts(request, visit, document_id),
        visit.api.knowledge_bases.explain_document(kb_id, document_id=document_id),
        _chunks(visit, kb_id, document_id=document_id, skip=chunk, cited=cited),
    )
    is_replaced = cited is not None and (chunks is None or all(chunk.chunk_id != cited for chunk in chunks.chunks))
    bands, as_cited = await run_two_or_cancel(
        _bands(visit, chunks, explained),
        _as_cited(visit, run_id=run, chunk_id=cited if is_replaced else None),
    )
    return render_page(
        request,
        "document.html",
        part="_document_bands.html" if more and chunks is not None else "_document.html",
        kb_id=kb_id,
        explained=explained,
        facts=facts,
        citation_days=CITATION_DAYS,
        remedies=REMEDIES,
        chunks=chunks,
        bands=bands,
        pages=pages_of(bands),
        cited=cited,
        run=run,
        is_replaced=is_replaced,
        as_cited=as_cited,
        first=chunk if chunks is None else chunks.skip,
        chunks_of_page=CHUNKS,
        done=done,
        address_of_chunk=lambda first, **query: visit.address(
            LIST, kb_id, "documents", document_id, chunk=first or None, **query
        ),
        address_here=visit.address(LIST, kb_id, "documents", document_id, cited=cited, run=run, chunk=chunk or None),
        changes_by_itself=explained.status in _CHANGING and explained.knowledge_base_paused_at is None,
    )


async def _facts(request: Request, visit: Visit, document_id: str) -> DocumentFacts | None:
    """Return what only the whole page shows."""
    return None if is_partial(request) else await load_facts(visit.api, document_id)


async def _as_cited(visit: Visit, *, run_id: str | None, chunk_id: str | None) -> CitationView | None:
    """Return a passage that is gone, as the run that cites it has kept it."""
    if run_id is None or chunk_id is None:
        return None
    return await find_citation(visit, run_id=run_id, chunk_id=chunk_id)


async def _bands(visit: Visit, chunks: ChunkList | None, explained: ExplanationView) -> list[TextBand]:
    """Return the text of the passages, and between them, if it is that from which they were made."""
    if chunks is None or not chunks.chunks:
        return []
    try:
        text = await visit.api.documents.get_text(
            chunks.document_id, start=chunks.chunks[0].start, end=chunks.chunks[-1].end
        )
    except ApiError as error:
        # It was deleted meanwhile, or the key may not read all documents.
        if error.status not in {403, 404}:
            raise
        return lay_out_without_text(chunks.chunks)
    is_complete = text.end >= chunks.chunks[-1].end
    if not is_complete or explained.indexed is None or text.revision != explained.indexed.text_revision:
        return lay_out_without_text(chunks.chunks)
    return lay_out(text, chunks.chunks)


async def _chunks(visit: Visit, kb_id: str, *, document_id: str, skip: int, cited: str | None) -> ChunkList | None:
    """Return a page of the passages: the one with the cited passage, if it is still there."""
    listing = visit.api.knowledge_bases.list_chunks
    try:
        if cited is not None:
            try:
                return await listing(kb_id, document_id=document_id, around=cited, limit=CHUNKS)
            except ApiError as error:
                if error.status not in {404, 410, 422}:
                    raise
        return await listing(kb_id, document_id=document_id, skip=skip, limit=CHUNKS)
    except ApiError as error:
        # It is not in the knowledge base, or not any more.
        if error.status != 404:
            raise
        return None
