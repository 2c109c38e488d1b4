"""Imports of curated knowledge: a file or a text with JSON, tried first and loaded then."""

import json
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from starlette.datastructures import FormData, UploadFile

from kb_client.errors import ApiError
from kb_client.marked_text import decode_marked
from kb_console.addresses import OF_ORGANIZATION
from kb_console.dependencies import Visitor
from kb_console.pages import render_page
from kb_console.problems import ShownProblem, describe_refusal
from kb_contracts.api.knowledge_imports import ImportReport

PARTS: Final = ("metadata", "pieces", "graph")
_MOST_BYTES: Final = 20_000_000
_UNREADABLE: Final = "Unreadable document"

router = APIRouter(prefix=OF_ORGANIZATION)


@router.get("/knowledge/import")
async def show_form(request: Request, visit: Visitor) -> HTMLResponse:
    del visit
    return _render(request)


@router.post("/knowledge/import/uploads")
async def import_document(request: Request, visit: Visitor) -> HTMLResponse:
    """Say what would be loaded and skipped; the form that this returns loads it."""
    async with request.form(max_files=1, max_fields=5, max_part_size=_MOST_BYTES) as form:
        text = await _read_text(form)
        is_confirmed = form.get("confirmed") == "yes"
    document = _parse(text)
    if isinstance(document, ShownProblem):
        return _render(request, text=text, problem=document)
    try:
        report = await visit.api.knowledge.import_document(**document, dry_run=not is_confirmed)
    except ApiError as error:
        return _render(request, text=text, problem=describe_refusal(error))
    return _render(request, text=text, report=report)


async def _read_text(form: FormData) -> str:
    """Return the content of the file, if there is one, else what was pasted."""
    file, pasted = form.get("file"), form.get("document")
    if isinstance(file, UploadFile) and file.filename:
        content = await file.read()
        try:
            return decode_marked(content)
        except UnicodeError:
            return content.decode("utf-8", "replace")
    return pasted if isinstance(pasted, str) else ""


def _parse(text: str) -> dict[str, Any] | ShownProblem:
    """Return the parts of a document, or why it is none."""
    if not text.strip():
        return ShownProblem(422, "Nothing to import", "Choose a file or paste a document first.")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        place = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        return ShownProblem(422, _UNREADABLE, f"This is not JSON: there is a mistake{place}. Nothing was loaded.")
    if not isinstance(document, dict):
        return ShownProblem(422, _UNREADABLE, "The document should be an object with metadata, pieces and graph.")
    if unknown := sorted(set(document) - set(PARTS)):
        return ShownProblem(422, _UNREADABLE, f"It has unknown parts: {', '.join(unknown)[:200]}. Nothing was loaded.")
    return document


def _render(
    request: Request, *, text: str = "", report: ImportReport | None = None, problem: ShownProblem | None = None
) -> HTMLResponse:
    return render_page(
        request,
        "import.html",
        status_code=200 if problem is None else problem.status,
        text=text,
        report=report,
        problem=problem,
    )
