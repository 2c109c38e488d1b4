"""The page of a document that no knowledge base has; of any other document, the way to its page in the first one."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from kb_client.errors import ApiError
from kb_console.addresses import DOCUMENTS, LIST, OF_ORGANIZATION
from kb_console.dependencies import Visit, Visitor
from kb_console.documents.document_facts import CITATION_DAYS, load_facts
from kb_console.pages import render_page
from kb_console.status_words import OF_STAGE
from kb_contracts.api.document_lists import DocumentStage
from kb_contracts.api.document_texts import DocumentText
from kb_contracts.api.documents import DocumentView

CHARACTERS: Final = 20_000
"""Characters of the text that a page shows."""
_REASONS: Final[dict[DocumentStage, str]] = {
    "available": "No knowledge base has one of its tags, so no search finds it. Its tags can be changed below.",
    "waiting_for_text": "Its tags or metadata have come, its text has not, so there is nothing to search yet.",
    "deleted": "It was deleted. Only its revisions are still known.",
}

router = APIRouter(prefix=OF_ORGANIZATION)


@router.get("/documents/{document_id}")
async def show_document(
    request: Request,
    visit: Visitor,
    document_id: str,
    *,
    start: Annotated[int, Query(ge=0, le=1_000_000_000)] = 0,
    done: Annotated[str, Query(max_length=40)] = "",
) -> Response:
    facts = await load_facts(visit.api, document_id)
    if facts.document is not None and facts.document.knowledge_bases:
        kb_id = facts.document.knowledge_bases[0].kb_id
        return RedirectResponse(visit.address(LIST, kb_id, DOCUMENTS, document_id, done=done), 303)
    stage = None if facts.document is None else _stage_of(facts.document)
    return render_page(
        request,
        "document_without_kb.html",
        status_code=200 if facts.document is not None else 404,
        document_id=document_id,
        facts=facts,
        citation_days=CITATION_DAYS,
        state=None if stage is None else OF_STAGE[stage],
        reason="" if stage is None else _REASONS[stage],
        text=await _find_text(visit, document_id, start=start) if stage == "available" else None,
        characters=CHARACTERS,
        here=visit.address(DOCUMENTS, document_id),
        done=done,
    )


def _stage_of(document: DocumentView) -> DocumentStage:
    if document.alive:
        return "available"
    return "waiting_for_text" if document.deleted_revision is None else "deleted"


async def _find_text(visit: Visit, document_id: str, *, start: int) -> DocumentText | None:
    """Return a part of the text; None if it was deleted meanwhile."""
    try:
        return await visit.api.documents.get_text(document_id, start=start, end=start + CHARACTERS)
    except ApiError as error:
        if error.status != 404:
            raise
        return None
