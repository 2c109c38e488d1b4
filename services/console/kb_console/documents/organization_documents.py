"""All documents of the organization, whatever knowledge bases they are in, and changes of several at once."""

from collections.abc import Awaitable
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, Response

from kb_client.errors import ApiError, KbClientError
from kb_console.addresses import DOCUMENTS, OF_ORGANIZATION
from kb_console.dependencies import Uploads, Visit, Visitor
from kb_console.documents.bulk_edits import BulkEdit, BulkForm, plan_changes
from kb_console.documents.document_uploads import take_files, upload_values
from kb_console.documents.error_remedies import REMEDIES
from kb_console.errors import UnusableForm
from kb_console.pages import render_page
from kb_console.paging import ROWS
from kb_console.problems import ShownProblem, describe_problem, describe_refusal
from kb_console.status_words import OF_DOCUMENT, OF_STAGE
from kb_contracts.api.document_batches import BatchOutcome
from kb_contracts.api.document_lists import DocumentListFilter, DocumentPage, DocumentSort
from kb_contracts.api.documents import DocumentView
from kb_contracts.reserved_ids import find_entry_id
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel, run_two_or_cancel

_MOST_SELECTED: Final = 100
_MEMBERSHIP_STATES: Final = ("indexed", "empty", "pending", "running", "failed", "paused")
"""States that a document has in a knowledge base, and by which the list can be filtered."""
_IN_A_KB: Final = frozenset({"indexed", "empty"})
"""States of documents that a knowledge base has; the others can be of one that is still to come."""
_NOTHING: Final = DocumentPage(documents=[], total_count=0, next_cursor=None)
_CHANGING: Final = frozenset({"pending", "running"})
_Selected = Annotated[list[str] | None, Form(max_length=_MOST_SELECTED)]

router = APIRouter(prefix=OF_ORGANIZATION)


@router.get("/documents")
async def list_documents(
    request: Request,
    visit: Visitor,
    uploads: Uploads,
    *,
    q: Annotated[str, Query(max_length=200)] = "",
    tag: Annotated[str, Query(max_length=200)] = "",
    status: DocumentListFilter | Literal[""] = "",
    in_no_kb: bool = False,
    sort: DocumentSort | Literal[""] = "",
    cursor: Annotated[str, Query(max_length=2_000)] = "",
    done: Annotated[str, Query(max_length=40)] = "",
) -> HTMLResponse:
    answer, known = await run_two_or_cancel(
        _list_or_refusal(
            visit.api.documents.list(
                name_search=q or None,
                tag_id=tag or None,
                status=status or None,
                in_no_kb=in_no_kb or None,
                sort=sort or None,
                cursor=cursor or None,
                limit=ROWS,
            )
        ),
        visit.api.knowledge_bases.list(limit=100),
    )
    found, problem = (_NOTHING, answer) if isinstance(answer, ShownProblem) else (answer, None)

    def address_of(**changed: object) -> str:
        shown = {"q": q, "tag": tag, "status": status, "in_no_kb": "true" if in_no_kb else "", "sort": sort}
        return visit.address(DOCUMENTS, **{**shown, **changed})

    return render_page(
        request,
        "organization_documents.html",
        part="_organization_documents.html",
        status_code=200 if problem is None else problem.status,
        problem=problem,
        found=found,
        names={kb.kb_id: kb.name for kb in known.knowledge_bases},
        q=q,
        tag=tag,
        status=status,
        in_no_kb=in_no_kb,
        sort=sort,
        cursor=cursor,
        done=done,
        is_filtered=bool(q or tag or status or in_no_kb),
        stages=OF_STAGE,
        statuses=_statuses(status, in_no_kb=in_no_kb),
        find_entry_id=find_entry_id,
        remedies=REMEDIES,
        **upload_values(uploads),
        address_of_sort=lambda by: address_of(sort=by),
        address_first=address_of(),
        address_next=address_of(cursor=found.next_cursor) if found.next_cursor else None,
        address_of_list=address_of(cursor=cursor),
        changes_by_itself=any(
            placement.status in _CHANGING for document in found.documents for placement in document.knowledge_bases
        ),
    )


async def _list_or_refusal(listing: Awaitable[DocumentPage]) -> DocumentPage | ShownProblem:
    """Return the documents, or why the API can't filter by this, which is shown in place of the list."""
    try:
        return await listing
    except ApiError as error:
        if error.status != 422:
            raise
        return describe_problem(error)


def _statuses(chosen: str, *, in_no_kb: bool) -> list[tuple[str, str]]:
    """Return the states to choose from, in words: of documents in no knowledge base only those that they can have."""
    possible = [name for name in _MEMBERSHIP_STATES if name == chosen or not (in_no_kb and name in _IN_A_KB)]
    return [
        ("", "any"),
        *((name, words.words) for name, words in OF_STAGE.items()),
        *((name, OF_DOCUMENT[name].words) for name in possible),
    ]


@router.post("/documents/uploads")
async def upload(request: Request, visit: Visitor, uploads: Uploads) -> Response:
    return await take_files(request, visit, uploads, then=visit.address(DOCUMENTS, done="uploaded"))


@router.post("/documents/selected")
async def show_selected(request: Request, visit: Visitor, *, document_id: _Selected = None) -> HTMLResponse:
    """Show what can be done with the marked documents, and what a deletion would take away."""
    return await _render_selected(request, visit, document_id or [])


@router.post("/documents/change")
async def change(
    request: Request,
    visit: Visitor,
    *,
    document_id: _Selected = None,
    edit: Annotated[BulkEdit, Form()],
    tags: Annotated[str, Form()] = "",
    properties: Annotated[str, Form()] = "",
) -> HTMLResponse:
    ids, form = document_id or [], BulkForm(edit, tags, properties)
    try:
        documents = await _read_all(visit, ids)
        batch = plan_changes(form, documents)
        outcomes = (await visit.api.documents.batch(batch)).outcomes if batch else []
    except (UnusableForm, KbClientError) as error:
        return await _render_selected(request, visit, ids, form=form, problem=describe_refusal(error))
    return _render_outcomes(request, outcomes, documents)


async def _read_all(visit: Visit, document_ids: list[str]) -> list[DocumentView]:
    return await run_all_or_cancel([visit.api.documents.get(each) for each in document_ids])


async def _render_selected(
    request: Request,
    visit: Visit,
    document_ids: list[str],
    *,
    form: BulkForm | None = None,
    problem: ShownProblem | None = None,
) -> HTMLResponse:
    if not document_ids:
        nothing = ShownProblem(422, "Nothing selected", "Mark documents in the list first. Nothing was changed.")
        return render_page(request, "problem.html", status_code=422, problem=nothing)
    documents = await _read_all(visit, document_ids)
    memberships = [each for document in documents for each in document.knowledge_bases]
    return render_page(
        request,
        "selected_documents.html",
        status_code=200 if problem is None else problem.status,
        documents=documents,
        chunk_count=sum(each.chunk_count for each in memberships),
        kb_count=len({each.kb_id for each in memberships}),
        form=form or BulkForm("add_tags"),
        problem=problem,
    )


def _render_outcomes(request: Request, outcomes: list[BatchOutcome], documents: list[DocumentView]) -> HTMLResponse:
    names = {document.document_id: document.document_name or document.document_id for document in documents}
    return render_page(
        request,
        "changed_documents.html",
        accepted=[each for each in outcomes if each.problem is None],
        refused=[each for each in outcomes if each.problem is not None],
        unchanged_count=len(documents) - len(outcomes),
        names=names,
    )
