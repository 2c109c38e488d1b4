"""Help: the way from a file to an answer, what can be uploaded, the keyboard, and links to the documentation."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from kb_console.addresses import OF_ORGANIZATION
from kb_console.dependencies import Settings, Visitor
from kb_console.pages import render_page

router = APIRouter(prefix=OF_ORGANIZATION)


@router.get("/help")
async def show_help(request: Request, visit: Visitor, settings: Settings) -> HTMLResponse:
    return render_page(
        request,
        "help.html",
        organization_id=visit.session.organization_id,
        docs_url=str(settings.console_docs_url or "").rstrip("/"),
        max_upload_bytes=settings.console_max_upload_bytes,
    )
