"""Facts about a document, whatever knowledge base it is looked at in; and its tags, which can be changed there."""

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from kb_client import AsyncClient
from kb_client.errors import ApiError, KbClientError
from kb_console.addresses import DOCUMENTS, LIST, OF_ORGANIZATION
from kb_console.dependencies import Visit, Visitor
from kb_console.pages import render_page
from kb_console.problems import describe_refusal
from kb_console.typed_words import split_words
from kb_contracts.api.documents import DocumentView
from kb_contracts.api.insights import CitationInsight
from kb_contracts.reserved_ids import find_entry_id
from kb_shared.concurrency.concurrent_tasks import run_two_or_cancel

CITATION_DAYS: Final = 30
"""Time range of citations that the API takes by default."""
_TypedTags: TypeAlias = Annotated[str, Form(max_length=8_000)]

router = APIRouter(prefix=OF_ORGANIZATION)


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    document: DocumentView | None
    """None if no event of the document has come."""
    citations: CitationInsight | None
    """Citations of the last days; None if there are none."""
    may_see_citations: bool
    entry_id: str | None
    """Entry that the document is made from, if it is."""


async def load_facts(api: AsyncClient, document_id: str) -> DocumentFacts:
    document, cited = await run_two_or_cancel(_find_document(api, document_id), _find_citations(api, document_id))
    return DocumentFacts(
        document,
        next(iter(cited or []), None),
        may_see_citations=cited is not None,
        entry_id=find_entry_id(document_id),
    )


async def _find_document(api: AsyncClient, document_id: str) -> DocumentView | None:
    try:
        return await api.documents.get(document_id)
    except ApiError as error:
        if error.status != 404:
            raise
        return None


async def _find_citations(api: AsyncClient, document_id: str) -> list[CitationInsight] | None:
    """Return the citations of the document, in a row if there are any; None if the key may not see them."""
    try:
        return (await api.insights.list_citations(by="most_cited", document_id=document_id, limit=1)).documents
    except ApiError as error:
        if error.status != 403:
            raise
        return None


@router.post("/knowledge-bases/{kb_id}/documents/{document_id}/tags")
async def change_tags_in_kb(
    request: Request, visit: Visitor, kb_id: str, document_id: str, *, tags: _TypedTags = ""
) -> Response:
    """Replace the tags of a document on its page in a knowledge base."""
    return await _change_tags(request, visit, document_id, tags=tags, page=(LIST, kb_id, DOCUMENTS, document_id))


@router.post("/documents/{document_id}/tags")
async def change_tags(request: Request, visit: Visitor, document_id: str, *, tags: _TypedTags = "") -> Response:
    """Replace the tags of a document that no knowledge base has."""
    return await _change_tags(request, visit, document_id, tags=tags, page=(DOCUMENTS, document_id))


async def _change_tags(
    request: Request, visit: Visit, document_id: str, *, tags: str, page: tuple[str, ...]
) -> Response:
    """Replace the tags and lead back to `page`; a refusal keeps what was typed."""
    try:
        await visit.api.documents.replace_tags(document_id, tag_ids=list(dict.fromkeys(split_words(tags))))
    except KbClientError as error:
        problem = describe_refusal(error)
        return render_page(
            request,
            "document_tags.html",
            status_code=problem.status,
            here=visit.address(*page),
            document_id=document_id,
            tags=tags,
            problem=problem,
        )
    return RedirectResponse(visit.address(*page, done="tags"), 303)
