"""One entry: written, read with its passages, changed and deleted."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client import AsyncClient
from kb_client.errors import ApiError
from kb_console.addresses import ENTRIES, KNOWLEDGE, OF_ORGANIZATION
from kb_console.dependencies import Visitor
from kb_console.edit_conflicts import changed_meanwhile, compare_versions, find_changes
from kb_console.knowledge.entry_form import EntryForm
from kb_console.knowledge.entry_list import ENTRY_TYPES
from kb_console.pages import render_page
from kb_console.problems import ShownProblem, describe_refusal
from kb_console.status_words import OF_ENTRY
from kb_contracts.api.knowledge_entries import EntryChunkList, EntryView
from kb_contracts.knowledge.entry_fields import KNOWLEDGE_TYPES, KNOWN_INFO_TYPES
from kb_shared.concurrency.concurrent_tasks import run_two_or_cancel

_ENTRY = "/knowledge/entries/{entry_id}"
_CHUNKS = 100
_WHAT: Final = "entry"
_Done = Annotated[str, Query(max_length=40)]

router = APIRouter(prefix=OF_ORGANIZATION)


@router.get("/knowledge/new")
async def show_form(
    request: Request,
    visit: Visitor,
    *,
    title: Annotated[str, Query(max_length=300)] = "",
    entity_id: Annotated[str, Query(max_length=300)] = "",
) -> HTMLResponse:
    del visit
    return _render_new(request, EntryForm(title=title, entity_id=entity_id))


@router.post("/knowledge/new")
async def create(request: Request, visit: Visitor) -> Response:
    form = EntryForm.from_form(await request.form())
    try:
        # The same form sent twice, as by Back and Save, makes one entry.
        client = visit.api.with_options(idempotency_key=form.idempotency_key)
        created = await client.knowledge_entries.create(**form.creation())
    except ApiError as error:
        return _render_new(request, form, problem=describe_refusal(error))
    return RedirectResponse(visit.address(*ENTRIES, created.entry_id, done="created"), 303)


@router.get(_ENTRY)
async def show(request: Request, visit: Visitor, entry_id: str, done: _Done = "") -> HTMLResponse:
    (entry, version), chunks = await run_two_or_cancel(
        _read(visit.api, entry_id), visit.api.knowledge_entries.list_chunks(entry_id, limit=_CHUNKS)
    )
    return _render(request, entry, chunks=chunks, form=EntryForm.from_view(entry), version=version, done=done)


@router.post(_ENTRY)
async def save(request: Request, visit: Visitor, entry_id: str) -> Response:
    sent = await request.form()
    form, opened = EntryForm.from_form(sent), str(sent.get("version", ""))
    entry, version = await _read(visit.api, entry_id)
    problem = changed_meanwhile(_WHAT) if opened != version else None
    changes = find_changes(form.changeable(), EntryForm.from_view(entry).changeable())
    if problem is None and not changes:
        return RedirectResponse(visit.address(*ENTRIES, entry_id, done="unchanged"), 303)
    if problem is None:
        try:
            await visit.api.knowledge_entries.update(entry_id, **changes, **form.override(), if_match=version)
            return RedirectResponse(visit.address(*ENTRIES, entry_id, done="saved"), 303)
        except ApiError as error:
            if error.status == 412:
                entry, version = await _read(visit.api, entry_id)
            problem = changed_meanwhile(_WHAT) if error.status == 412 else describe_refusal(error)
    chunks = await visit.api.knowledge_entries.list_chunks(entry_id, limit=_CHUNKS)
    return _render(request, entry, chunks=chunks, form=form, version=version, problem=problem)


@router.post(_ENTRY + "/retry")
async def retry(visit: Visitor, entry_id: str) -> Response:
    await visit.api.knowledge_entries.retry(entry_id)
    return RedirectResponse(visit.address(*ENTRIES, entry_id, done="retried"), 303)


@router.get(_ENTRY + "/delete")
async def confirm_deletion(request: Request, visit: Visitor, entry_id: str) -> HTMLResponse:
    entry, chunks = await run_two_or_cancel(
        visit.api.knowledge_entries.get(entry_id), visit.api.knowledge_entries.list_chunks(entry_id, limit=1)
    )
    return render_page(request, "entry_delete.html", entry=entry, chunks=chunks)


@router.post(_ENTRY + "/delete")
async def delete(visit: Visitor, entry_id: str) -> Response:
    await visit.api.knowledge_entries.delete(entry_id)
    return RedirectResponse(visit.address(KNOWLEDGE, done="deleted"), 303)


async def _read(api: AsyncClient, entry_id: str) -> tuple[EntryView, str]:
    """Return an entry and its version, which a change names."""
    answer = await api.knowledge_entries.get.with_raw_response(entry_id)
    return answer.parsed, answer.etag or ""


def _render_new(request: Request, form: EntryForm, *, problem: ShownProblem | None = None) -> HTMLResponse:
    return render_page(
        request,
        "entry_new.html",
        status_code=200 if problem is None else problem.status,
        form=form,
        problem=problem,
        **_CHOICES,
    )


def _render(
    request: Request,
    entry: EntryView,
    *,
    chunks: EntryChunkList,
    form: EntryForm,
    version: str,
    problem: ShownProblem | None = None,
    done: str = "",
) -> HTMLResponse:
    stored = EntryForm.from_view(entry).changeable()
    is_conflict = problem is not None and problem.status == 412
    return render_page(
        request,
        "entry.html",
        part="_entry_state.html",
        status_code=200 if problem is None else problem.status,
        entry=entry,
        chunks=chunks,
        form=form,
        version=version,
        problem=problem,
        versions=compare_versions(find_changes(form.changeable(), stored), stored) if is_conflict else [],
        original=entry.source_url if _leads_to_web(entry.source_url) else None,
        state=OF_ENTRY.get(entry.embedding_status),
        done=done,
        **_CHOICES,
    )


def _leads_to_web(url: str | None) -> bool:
    """Say whether an address may become a link: that of a source is what somebody else has written."""
    return url is not None and url.startswith(("https://", "http://"))


_CHOICES: Final[dict[str, Any]] = {
    "entry_types": ENTRY_TYPES,
    "knowledge_types": [
        ("", "none"),
        *((each, each) for each in KNOWLEDGE_TYPES),
    ],
    "info_types": KNOWN_INFO_TYPES,
}
