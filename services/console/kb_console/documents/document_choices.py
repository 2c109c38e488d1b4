"""Documents to choose from in fields that take the id of one, asked for when such a field gets the focus."""

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from kb_client.errors import ApiError
from kb_console.addresses import OF_ORGANIZATION
from kb_console.dependencies import Visit, Visitor
from kb_console.pages import render_page
from kb_contracts.api.document_lists import DocumentSummary
from kb_contracts.api.memberships import ListedDocumentView

_CHOICES: Final = 100
_FORBIDDEN: Final = 403

router = APIRouter(prefix=OF_ORGANIZATION)


@router.get("/document-choices")
async def show_document_choices(
    request: Request, visit: Visitor, kb: Annotated[str | None, Query(max_length=100)] = None
) -> HTMLResponse:
    """Suggest documents of a knowledge base, or documents of the organization that have a text."""
    return render_page(request, "_document_choices.html", documents=await _read_choices(visit, kb))


async def _read_choices(visit: Visit, kb_id: str | None) -> Sequence[DocumentSummary | ListedDocumentView]:
    """Return the documents; none for a key that may not see all documents of the organization."""
    if kb_id is not None:
        return (await visit.api.knowledge_bases.list_documents(kb_id, status="all", limit=_CHOICES)).documents
    try:
        return (await visit.api.documents.list(status="available", limit=_CHOICES)).documents
    except ApiError as error:
        if error.status != _FORBIDDEN:
            raise
        return []
