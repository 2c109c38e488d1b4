"""States of uploaded documents, which a page asks for until they are searchable."""

from typing import Annotated, Final

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from kb_console.addresses import DOCUMENTS, LIST, OF_ORGANIZATION
from kb_console.dependencies import Visit, Visitor
from kb_console.status_words import StatusWords, status_of_document
from kb_contracts.api.document_lists import DocumentSummary

MOST: Final = 50
_RECEIVED: Final = StatusWords("received", "busy")
_IN_NONE: Final = StatusWords("in no knowledge base", "idle")
_BY_PROGRESS: Final = ("failed", "paused", "pending", "running", "empty", "indexed")
"""Order of states: a document that several knowledge bases have is shown with the first of its states."""
_OPEN: Final = frozenset({"pending", "running"})

router = APIRouter(prefix=OF_ORGANIZATION)

UploadedDocument = Annotated[str, Query(max_length=150, pattern=r"^[A-Za-z0-9._-]{1,128}:[0-9]{1,16}$")]


@router.get("/documents/upload-states")
async def show_upload_states(
    visit: Visitor, uploaded: Annotated[list[UploadedDocument], Query(min_length=1, max_length=MOST)]
) -> Response:
    """Tell how far documents are that were uploaded, each given as its id and its revision."""
    revisions = dict(each.rsplit(":", 1) for each in uploaded)
    found = await visit.api.documents.list(document_ids=list(revisions), limit=MOST)
    known = {document.document_id: document for document in found.documents}
    return JSONResponse(
        [
            _describe(visit, document_id, known.get(document_id), revision=int(revision))
            for document_id, revision in revisions.items()
        ]
    )


def _describe(visit: Visit, document_id: str, document: DocumentSummary | None, *, revision: int) -> dict[str, object]:
    """Return the state of a document; an older text than the uploaded one says nothing about the upload."""
    if document is None or document.text_revision is None or document.text_revision < revision:
        return _state(document_id, _RECEIVED)
    if not document.knowledge_bases:
        return _state(document_id, _IN_NONE, address=visit.address(DOCUMENTS, q=document.document_name))
    place = min(
        document.knowledge_bases,
        key=lambda each: _BY_PROGRESS.index(each.status) if each.status in _BY_PROGRESS else -1,
    )
    return _state(
        document_id,
        status_of_document(place.status),
        is_final=place.status not in _OPEN,
        address=visit.address(LIST, place.kb_id, "documents", document_id),
    )


def _state(
    document_id: str, status: StatusWords, *, is_final: bool = False, address: str | None = None
) -> dict[str, object]:
    return {
        "document_id": document_id,
        "words": status.words,
        "tone": status.tone,
        "is_final": is_final,
        "address": address,
    }
