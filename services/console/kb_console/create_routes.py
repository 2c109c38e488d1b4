"""Creation of a knowledge base, with a preview of its passages and of its cost."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client import AsyncClient
from kb_client.errors import ApiError, KbClientError
from kb_console.addresses import LIST, OF_ORGANIZATION
from kb_console.dependencies import Visit, Visitor
from kb_console.errors import UnusableForm
from kb_console.knowledge_base_form import ANALYZERS, CHUNKERS, KnowledgeBaseForm
from kb_console.pages import render_page
from kb_console.problems import ShownProblem, describe_problem, unusable_form
from kb_console.tag_choices import list_tag_choices
from kb_console.text_pieces import TextPiece, cut_at_chunks
from kb_contracts.api.previews import KnowledgeBasePreview, PreviewedChunkView
from kb_shared.concurrency.concurrent_tasks import run_two_or_cancel

MAX_SAMPLE_CHARACTERS = 50_000
_CHOICES = 100

router = APIRouter(prefix=OF_ORGANIZATION)


@router.get("/knowledge-bases/new")
async def show_form(
    request: Request, visit: Visitor, copy: Annotated[str | None, Query(max_length=100)] = None
) -> HTMLResponse:
    form = KnowledgeBaseForm()
    if copy is not None:
        form = KnowledgeBaseForm.copy_of(await visit.api.knowledge_bases.get(copy))
    return await _render(request, visit, form)


@router.post("/knowledge-bases")
async def create(request: Request, visit: Visitor) -> Response:
    form = KnowledgeBaseForm.from_form(await request.form())
    try:
        arguments = form.creation()
        for tag_id in form.typed_tags():
            await visit.api.tags.put(tag_id, name=tag_id)
        # The same form sent twice, as by Back and Create, makes one knowledge base.
        client = visit.api.with_options(idempotency_key=form.idempotency_key)
        created = await client.knowledge_bases.create(**arguments)
    except UnusableForm as error:
        return await _render(request, visit, form, problem=unusable_form(error.fields))
    except ApiError as error:
        if error.status == 401:
            raise
        return await _render(request, visit, form, problem=describe_problem(error))
    return RedirectResponse(visit.address(LIST, created.kb_id, done="created"), 303)


@router.post("/knowledge-bases/preview")
async def preview(request: Request, visit: Visitor) -> HTMLResponse:
    form = KnowledgeBaseForm.from_form(await request.form())
    if "hx-request" not in request.headers:
        # The button of the form, without a script.
        return await _render(request, visit, form, with_preview=True)
    shown = await _preview(visit.api, form)
    return render_page(request, "_preview.html", preview=shown, pieces=_pieces(form, shown))


async def _preview(api: AsyncClient, form: KnowledgeBaseForm) -> KnowledgeBasePreview | None:
    """Return what the settings would make of the text and of the documents with the tags; None without either."""
    # Tags that were typed need not exist yet, and then have no documents.
    sample, tags = form.sample[:MAX_SAMPLE_CHARACTERS], list(form.tag_ids)
    if not sample.strip() and not tags:
        return None
    return await api.knowledge_bases.preview(
        **form.settings(), text=sample if sample.strip() else None, tag_ids=tags or None, limit=500
    )


def _pieces(form: KnowledgeBaseForm, preview: KnowledgeBasePreview | None) -> list[TextPiece]:
    if preview is None or preview.text is None:
        return []
    sample = form.sample[:MAX_SAMPLE_CHARACTERS]
    spans = [(chunk.chunk_index, _start_with_overlap(sample, chunk), chunk.end) for chunk in preview.text.chunks]
    return cut_at_chunks(sample, spans)


def _start_with_overlap(text: str, chunk: PreviewedChunkView) -> int:
    """Return where the text begins that a chunk repeats of the one before; else where the chunk itself begins."""
    found = text.rfind(chunk.context, 0, chunk.start) if chunk.context else -1
    # Only white space is between them.
    is_before = found >= 0 and not text[found + len(chunk.context) : chunk.start].strip()
    return found if is_before else chunk.start


async def _render(
    request: Request,
    visit: Visit,
    form: KnowledgeBaseForm,
    *,
    problem: ShownProblem | None = None,
    with_preview: bool = False,
) -> HTMLResponse:
    tags, models = await run_two_or_cancel(
        list_tag_choices(visit.api), visit.api.embedding_models.list(key_present=True, limit=_CHOICES)
    )
    preview = None
    if with_preview:
        try:
            preview = await _preview(visit.api, form)
        except UnusableForm as error:
            problem = unusable_form(error.fields)
        except KbClientError as error:
            problem = describe_problem(error)
    return render_page(
        request,
        "create.html",
        status_code=200 if problem is None else problem.status,
        form=form,
        choices=tags,
        models=models.embedding_models,
        chunkers=[(name, f"{name}: {about}") for name, about in CHUNKERS.items()],
        analyzers=[(name, name.removeprefix("lucene.")) for name in ANALYZERS],
        problem=problem,
        preview=preview,
        pieces=_pieces(form, preview),
    )
