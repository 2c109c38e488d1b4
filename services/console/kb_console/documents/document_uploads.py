"""Takes uploaded files: each becomes a document."""

from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.datastructures import FormData, UploadFile

from kb_client.errors import ApiError
from kb_client.files.file_problem import FileProblem
from kb_client.files.formats import SUFFIXES
from kb_client.unset import UNSET
from kb_console.dependencies import Visit
from kb_console.pages import render_page
from kb_console.problems import ShownProblem, describe_refusal
from kb_console.typed_words import split_words
from kb_console.uploads import Uploads, describe_file_problem, safe_name, safe_path
from kb_contracts.api.documents import AcceptedChange

_MOST_FILES: Final = 100


@dataclass(frozen=True, slots=True)
class _TakenFile:
    change: AcceptedChange
    warnings: tuple[str, ...]
    """Warnings about what was read only in part, or by a guess."""


def upload_values(uploads: Uploads) -> dict[str, Any]:
    """Return what the form for uploads is rendered with."""
    return {"max_upload_bytes": uploads.max_bytes, "file_endings": " ".join(sorted(SUFFIXES))}


async def take_files(request: Request, visit: Visit, uploads: Uploads, *, then: str) -> Response:
    """Send the documents in the files of a form to the API.

    A script sends one file at a time and gets a line of text; without a script, the page `then` follows.
    """
    wants_json = request.headers.get("accept") == "application/json"
    async with request.form(max_files=_MOST_FILES, max_fields=20) as form:
        tag_ids = _read_tags(form)
        files = [file for file in form.getlist("file") if isinstance(file, UploadFile) and file.filename]
        if not tag_ids:
            detail = "There is no tag, and without one no knowledge base has the document: give one first."
            return _answer_refusal(request, ShownProblem(422, "No tag", detail), wants_json=wants_json)
        if not files:
            return _answer_refusal(request, ShownProblem(422, "No file", "Choose a file first."), wants_json=wants_json)
        path = form.get("path") if len(files) == 1 else None
        name = safe_path(path) if isinstance(path, str) else ""
        outcomes = [
            await _push(visit, uploads, file, name=name or safe_name(file.filename or ""), tag_ids=tag_ids)
            for file in files
        ]
    accepted = []
    for outcome in outcomes:
        if isinstance(outcome, ShownProblem):
            return _answer_refusal(request, outcome, wants_json=wants_json)
        accepted.append(outcome)
    if wants_json:
        first = accepted[0]
        return JSONResponse(
            {
                "detail": "received",
                "document_id": first.change.document_id,
                "revision": first.change.revision,
                "warnings": list(first.warnings),
            },
            202,
        )
    return RedirectResponse(then, 303)


def _read_tags(form: FormData) -> list[str]:
    chosen, typed = form.get("tag_id"), form.get("tag_ids")
    words = split_words(typed) if isinstance(typed, str) else []
    return [chosen] if isinstance(chosen, str) and chosen else words


async def _push(
    visit: Visit, uploads: Uploads, file: UploadFile, *, name: str, tag_ids: list[str]
) -> _TakenFile | ShownProblem:
    """Send the document in a file, or return why that is not possible. Other files are sent all the same."""
    parsed = await uploads.parse(file, name=name)
    if isinstance(parsed, FileProblem):
        return ShownProblem(422, name, describe_file_problem(parsed))
    try:
        change = await visit.api.documents.upload(
            parsed.document_id,
            parsed.text,
            # As who uploaded it looks for it. Titles inside of files are often those of templates.
            document_name=name,
            tag_ids=tag_ids,
            upload_date=parsed.upload_date,
            metadata=parsed.metadata,
            pages=[page.model_dump() for page in parsed.pages],
            content_type=parsed.content_type,
            source_digest=parsed.source_digest,
            # While replicas are replaced, one of an earlier version may take it, which knows no such field.
            reading_warnings=parsed.warnings or UNSET,
        )
    except ApiError as error:
        return describe_refusal(error)
    return _TakenFile(change, tuple(parsed.warnings))


def _answer_refusal(request: Request, problem: ShownProblem, *, wants_json: bool) -> Response:
    if wants_json:
        return JSONResponse({"detail": problem.detail}, problem.status)
    return render_page(request, "problem.html", status_code=problem.status, problem=problem)
