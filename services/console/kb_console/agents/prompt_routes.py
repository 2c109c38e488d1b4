"""Prompts: instructions for a chat model, with the knowledge bases that it searches and the schema of its answer."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client.errors import ApiError
from kb_console.addresses import OF_ORGANIZATION
from kb_console.agents.prompt_form import PromptForm, find_problem_of_schema
from kb_console.dependencies import Visit, Visitor
from kb_console.errors import UnusableForm
from kb_console.pages import render_page
from kb_console.paging import ROWS, Paging
from kb_console.problems import ShownProblem, describe_refusal
from kb_shared.concurrency.concurrent_tasks import run_three_or_cancel, run_two_or_cancel

PROMPTS: Final = "prompts"
_CHOICES: Final = 100
_PROMPT: Final = "/prompts/{prompt_id}"

router = APIRouter(prefix=OF_ORGANIZATION)


@router.get("/prompts")
async def list_prompts(
    request: Request, visit: Visitor, *, paging: Paging, done: Annotated[str, Query(max_length=40)] = ""
) -> HTMLResponse:
    found = await visit.api.prompts.list(skip=paging.skip, limit=ROWS)
    return render_page(
        request,
        "prompts.html",
        found=found,
        paging=paging,
        done=done,
        address_of_page=lambda page: visit.address(PROMPTS, page=page),
    )


@router.get("/prompts/new")
async def show_form(request: Request, visit: Visitor) -> HTMLResponse:
    return await _render_new(request, visit, PromptForm())


@router.post("/prompts/schema")
async def check_schema(request: Request, _visit: Visitor) -> HTMLResponse:
    """Say whether what is being typed is JSON. Without a script, saving says it."""
    schema = PromptForm.from_form(await request.form()).schema
    return render_page(request, "_schema.html", schema=schema, schema_problem=find_problem_of_schema(schema))


@router.post("/prompts")
async def create(request: Request, visit: Visitor) -> Response:
    form = PromptForm.from_form(await request.form())
    try:
        client = visit.api.with_options(idempotency_key=form.idempotency_key)
        created = await client.prompts.create(**form.fields())
    except (UnusableForm, ApiError) as error:
        return await _render_new(request, visit, form, problem=describe_refusal(error))
    return RedirectResponse(visit.address(PROMPTS, created.prompt_id, done="created"), 303)


@router.get(_PROMPT)
async def show_prompt(
    request: Request, visit: Visitor, prompt_id: str, *, done: Annotated[str, Query(max_length=40)] = ""
) -> HTMLResponse:
    return await _render_prompt(request, visit, prompt_id, done=done)


@router.post(_PROMPT)
async def change(request: Request, visit: Visitor, prompt_id: str) -> Response:
    form = PromptForm.from_form(await request.form())
    try:
        await visit.api.prompts.update(prompt_id, **form.fields(), if_match=form.etag or None)
    except (UnusableForm, ApiError) as error:
        return await _render_prompt(request, visit, prompt_id, form=form, problem=describe_refusal(error))
    return RedirectResponse(visit.address(PROMPTS, prompt_id, done="saved"), 303)


@router.get(_PROMPT + "/delete")
async def confirm_deletion(request: Request, visit: Visitor, prompt_id: str) -> HTMLResponse:
    prompt, runs = await run_two_or_cancel(
        visit.api.prompts.get(prompt_id), visit.api.runs.list(prompt_id=prompt_id, limit=1)
    )
    return render_page(request, "prompt_delete.html", prompt=prompt, run_count=runs.total_count)


@router.post(_PROMPT + "/delete")
async def delete(visit: Visitor, prompt_id: str) -> Response:
    await visit.api.prompts.delete(prompt_id)
    return RedirectResponse(visit.address(PROMPTS, done="deleted"), 303)


async def _render_new(
    request: Request, visit: Visit, form: PromptForm, *, problem: ShownProblem | None = None
) -> HTMLResponse:
    models, found = await run_two_or_cancel(
        visit.api.chat_models.list(key_present=True, limit=_CHOICES),
        visit.api.knowledge_bases.list(sort="name", limit=_CHOICES),
    )
    return render_page(
        request,
        "prompt_new.html",
        status_code=200 if problem is None else problem.status,
        form=form,
        models=models.chat_models,
        knowledge_bases=found.knowledge_bases,
        problem=problem,
    )


async def _render_prompt(
    request: Request,
    visit: Visit,
    prompt_id: str,
    *,
    form: PromptForm | None = None,
    problem: ShownProblem | None = None,
    done: str = "",
) -> HTMLResponse:
    raw, models, found = await run_three_or_cancel(
        visit.api.prompts.get.with_raw_response(prompt_id),
        visit.api.chat_models.list(key_present=True, limit=_CHOICES),
        visit.api.knowledge_bases.list(sort="name", limit=_CHOICES),
    )
    return render_page(
        request,
        "prompt.html",
        status_code=200 if problem is None else problem.status,
        prompt=raw.parsed,
        form=form or PromptForm.from_view(raw.parsed, raw.etag),
        models=models.chat_models,
        knowledge_bases=found.knowledge_bases,
        problem=problem,
        done=done,
    )
