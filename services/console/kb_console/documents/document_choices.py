"""Documents to choose from by their names, in fields whose value is a name or an id."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from kb_client.errors import ApiError
from kb_console.addresses import OF_ORGANIZATION
from kb_console.dependencies import Visit, Visitor
from kb_console.errors import UnusableForm
from kb_console.pages import render_page
from kb_contracts.api.document_lists import DocumentSummary
from kb_contracts.api.memberships import ListedDocumentView
from kb_shared.concurrency.concurrent_tasks import run_two_or_cancel

_CHOICES: Final = 100
_NAMED_IDS: Final = 5
_FORBIDDEN: Final = 403
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
_Choice: TypeAlias = DocumentSummary | ListedDocumentView

router = APIRouter(prefix=OF_ORGANIZATION)


@router.get("/document-choices")
async def show_document_choices(
    request: Request,
    visit: Visitor,
    *,
    kb: Annotated[str | None, Query(max_length=100)] = None,
    q: Annotated[str, Query(max_length=200)] = "",
) -> HTMLResponse:
    """Suggest documents of a knowledge base, or documents of the organization that have a text."""
    documents = await _read_choices(visit, kb, name=q)
    times = Counter(each.document_name for each in documents)
    # A name that several have chooses none of them, so these have their ids.
    choices = [
        (each.document_name, "")
        if each.document_name and times[each.document_name] == 1
        else (each.document_id, each.document_name or "")
        for each in documents
    ]
    return render_page(request, "_document_choices.html", choices=choices)


async def find_document_id(visit: Visit, typed: str, *, field: str, kb_id: str | None = None) -> str:
    """Return the id of the document that a field names: by its id, or by its name.

    What no document is called is returned as it is: the API says that there is no such document.

    Raises:
        UnusableForm: several documents have this name.
    """
    if not typed:
        return typed
    known, called = await run_two_or_cancel(_find_by_id(visit, typed), _read_choices(visit, kb_id, name=typed))
    if known is not None:
        return typed
    found = [each.document_id for each in called if (each.document_name or "").casefold() == typed.casefold()]
    if len(found) > 1:
        ids = ", ".join(found[:_NAMED_IDS])
        raise UnusableForm({field: f"names {len(found)} documents. Type the id of one: {ids}"})
    return found[0] if found else typed


async def find_document_name(visit: Visit, document_id: str) -> str:
    """Return the name of a document; its id if it has none, or is not known to this key."""
    found = await _find_by_id(visit, document_id)
    return document_id if found is None else found.document_name or document_id


async def _find_by_id(visit: Visit, document_id: str) -> DocumentSummary | None:
    if _ID.fullmatch(document_id) is None:
        return None
    try:
        found = (await visit.api.documents.list(document_ids=[document_id], limit=1)).documents
    except ApiError as error:
        if error.status != _FORBIDDEN:
            raise
        return None
    return next((each for each in found if each.document_id == document_id), None)


async def _read_choices(visit: Visit, kb_id: str | None, *, name: str) -> Sequence[_Choice]:
    """Return the documents; none for a key that may not see all documents of the organization."""
    searched = name or None
    if kb_id is not None:
        found = visit.api.knowledge_bases.list_documents(kb_id, status="all", name_search=searched, limit=_CHOICES)
        return (await found).documents
    try:
        return (await visit.api.documents.list(status="available", name_search=searched, limit=_CHOICES)).documents
    except ApiError as error:
        if error.status != _FORBIDDEN:
            raise
        return []
