"""Creation of a knowledge base, with a preview of its passages and of its cost."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.datastructures import UploadFile

from kb_client.errors import ApiError, KbClientError
from kb_client.files.file_problem import FileProblem
from kb_console.addresses import LIST, OF_ORGANIZATION
from kb_console.dependencies import Uploads, Visit, Visitor
from kb_console.documents.document_choices import find_document_id
from kb_console.errors import UnusableForm
from kb_console.knowledge_bases.knowledge_base_form import ANALYZERS, CHUNKERS, DETECTED, KnowledgeBaseForm
from kb_console.knowledge_bases.tag_choices import (
    choose_own_tag,
    create_missing_tags,
    find_missing_tags,
    list_tag_choices,
)
from kb_console.pages import render_page
from kb_console.problems import ShownProblem, describe_refusal
from kb_console.status_words import language_of
from kb_console.text_pieces import TextPiece, cut_at_chunks
from kb_console.uploads import describe_file_problem
from kb_contracts.api.previews import KnowledgeBasePreview, PreviewedChunkView
from kb_shared.concurrency.concurrent_tasks import run_two_or_cancel

MAX_SAMPLE_CHARACTERS = 50_000
_CHOICES = 100
_SHOWN_CHUNKS = 500

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
    form = await _read_form(request)
    try:
        arguments = (await _complete(visit, form)).creation()
        await create_missing_tags(visit.api, arguments["tag_ids"])
        # The same form sent twice, as by Back and Create, makes one knowledge base.
        client = visit.api.with_options(idempotency_key=form.idempotency_key)
        created = await client.knowledge_bases.create(**arguments)
    except (UnusableForm, ApiError) as error:
        return await _render(request, visit, form, problem=describe_refusal(error))
    return RedirectResponse(visit.address(LIST, created.kb_id, done="created"), 303)


async def _complete(visit: Visit, form: KnowledgeBaseForm) -> KnowledgeBaseForm:
    """Return the form with a tag and a language where none was chosen.

    Raises:
        UnusableForm: a value of the preview, which knows the language, can't be used.
    """
    if not form.all_tags() and form.name.strip():
        form = replace(form, new_tags=await choose_own_tag(visit.api, form.name.strip()))
    if form.text_analyzer != DETECTED:
        return form
    preview = (await _preview(visit, form)).preview
    return replace(form, text_analyzer="lucene.standard" if preview is None else preview.suggested_text_analyzer)


async def _read_form(request: Request) -> KnowledgeBaseForm:
    # It may hold a file for the preview, which is closed here.
    async with request.form() as sent:
        return KnowledgeBaseForm.from_form(sent)


@router.post("/knowledge-bases/preview")
async def preview(request: Request, visit: Visitor) -> HTMLResponse:
    form = await _read_form(request)
    if "hx-request" not in request.headers:
        # The button of the form, without a script.
        return await _render(request, visit, form, with_preview=True)
    shown = await _preview(visit, form)
    return render_page(request, "_preview.html", **shown.values())


@router.post("/knowledge-bases/preview/uploads")
async def preview_file(request: Request, visit: Visitor, uploads: Uploads) -> HTMLResponse:
    """Put the text of a file into the form, as the sample. The file is not stored."""
    async with request.form(max_files=1, max_fields=200) as sent:
        form, file = KnowledgeBaseForm.from_form(sent), sent.get("sample_file")
        if not isinstance(file, UploadFile) or not file.filename:
            problem = ShownProblem(422, "No file", "Choose a file first.")
            return await _render(request, visit, form, problem=problem)
        parsed = await uploads.parse(file)
    if isinstance(parsed, FileProblem):
        problem = ShownProblem(422, "Unreadable file", describe_file_problem(parsed))
        return await _render(request, visit, form, problem=problem)
    sample = parsed.text[:MAX_SAMPLE_CHARACTERS]
    read = replace(form, sample=sample, sample_document="", sample_characters=str(len(parsed.text)))
    return await _render(request, visit, read, with_preview=True)


@dataclass(frozen=True, slots=True)
class CutPreview:
    """The part of a text that a preview shows."""

    shown_characters: int
    characters: int
    expected_chunks: int
    """Number of passages that the whole text will have."""
    is_estimated: bool


@dataclass(frozen=True, slots=True)
class ShownPreview:
    """Preview of the settings, on a text and on the documents with the tags."""

    preview: KnowledgeBasePreview | None = None
    text: str = ""
    characters: int = 0
    """Length of the whole text, of which `text` may be the beginning."""
    is_stored: bool = False
    """True if the text is that of a document, which the API has split as a whole, or up to its own limit."""

    def values(self) -> dict[str, Any]:
        """Return what the preview is rendered with."""
        return {"preview": self.preview, "pieces": self.pieces(), "cut": self._cut()}

    def _cut(self) -> CutPreview | None:
        """Return what is shown of a long text, and how many passages the whole has; None if it is the whole."""
        made = None if self.preview is None else self.preview.text
        if made is None or not made.chunks or not (made.is_truncated or len(self.text) < self.characters):
            return None
        if self.is_stored and not made.is_truncated:
            return CutPreview(len(self.text), self.characters, made.chunk_count, is_estimated=False)
        # The chunks that are shown say what a chunk takes of the text.
        expected = round(len(made.chunks) * self.characters / made.chunks[-1].end)
        return CutPreview(len(self.text), self.characters, expected, is_estimated=True)

    def pieces(self) -> list[TextPiece]:
        if self.preview is None or self.preview.text is None:
            return []
        spans = [
            (chunk.chunk_index, _start_with_overlap(self.text, chunk), chunk.end)
            for chunk in self.preview.text.chunks
            if chunk.start < len(self.text)
        ]
        return cut_at_chunks(self.text, spans)


async def _preview(visit: Visit, form: KnowledgeBaseForm) -> ShownPreview:
    api = visit.api
    # Tags that were typed need not exist yet, and then have no documents.
    missing = await find_missing_tags(api, form.typed_tags())
    sample, tags = form.sample[:MAX_SAMPLE_CHARACTERS], [tag for tag in form.all_tags() if tag not in missing]
    preview = api.knowledge_bases.preview
    if document_id := await find_document_id(visit, form.sample_document.strip(), field="sample_document"):
        shown, text = await run_two_or_cancel(
            preview(**form.settings(), document_id=document_id, tag_ids=tags or None, limit=_SHOWN_CHUNKS),
            api.documents.get_text(document_id, end=MAX_SAMPLE_CHARACTERS),
        )
        return ShownPreview(shown, text.text, text.length, is_stored=True)
    if not sample.strip() and not tags:
        return ShownPreview()
    text_or_none = sample if sample.strip() else None
    shown = await preview(**form.settings(), text=text_or_none, tag_ids=tags or None, limit=_SHOWN_CHUNKS)
    # The beginning of a file, until it is changed.
    whole = int(form.sample_characters) if form.sample_characters.isdecimal() else 0
    return ShownPreview(shown, sample, whole if len(sample) == MAX_SAMPLE_CHARACTERS else len(sample))


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
    shown = ShownPreview()
    if with_preview:
        try:
            shown = await _preview(visit, form)
        except (UnusableForm, KbClientError) as error:
            problem = describe_refusal(error)
    return render_page(
        request,
        "create.html",
        status_code=200 if problem is None else problem.status,
        form=form,
        choices=tags,
        models=models.embedding_models,
        chunkers=[(name, f"{name}: {about}") for name, about in CHUNKERS.items()],
        analyzers=[
            (DETECTED, "that of the text beside, or of the documents"),
            *((name, language_of(name)) for name in ANALYZERS),
        ],
        problem=problem,
        **shown.values(),
    )
