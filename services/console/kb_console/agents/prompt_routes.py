"""Prompts: instructions for a chat model, with the knowledge bases that it searches and the schema of its answer."""

from dataclasses import replace
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client.errors import KbClientError
from kb_console.addresses import OF_ORGANIZATION
from kb_console.agents.prompt_form import PromptForm, find_problem_of_schema
from kb_console.agents.trials import NOTHING_TRIED, PROMPTS, Trial, Tried, ask_prompt, read_trial_of_prompt
from kb_console.dependencies import Visit, Visitor
from kb_console.edit_conflicts import (
    CHANGED_MEANWHILE,
    TwoVersions,
    changed_meanwhile,
    compare_versions,
    find_changes,
)
from kb_console.errors import UnusableForm
from kb_console.pages import is_partial, render_page
from kb_console.paging import ROWS, Paging
from kb_console.problems import ShownProblem, describe_refusal
from kb_contracts.api.chat_models import ChatModelView
from kb_contracts.api.knowledge_bases import KnowledgeBaseView
from kb_shared.concurrency.concurrent_tasks import run_three_or_cancel, run_two_or_cancel

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
    except (UnusableForm, KbClientError) as error:
        return await _render_new(request, visit, form, problem=describe_refusal(error))
    return RedirectResponse(visit.address(PROMPTS, created.prompt_id, done="created"), 303)


@router.get(_PROMPT)
async def show_prompt(
    request: Request,
    visit: Visitor,
    prompt_id: str,
    *,
    run: Tried = "",
    done: Annotated[str, Query(max_length=40)] = "",
) -> HTMLResponse:
    trial = Trial(run)
    if run and is_partial(request):
        return render_page(request, "_turns.html", **await read_trial_of_prompt(visit, prompt_id, trial))
    return await _render_prompt(request, visit, prompt_id, trial=trial, done=done)


@router.post(_PROMPT)
async def change(request: Request, visit: Visitor, prompt_id: str, *, run: Tried = "") -> Response:
    form = PromptForm.from_form(await request.form())
    try:
        await visit.api.prompts.update(prompt_id, **form.fields(), if_match=form.etag or None)
    except (UnusableForm, KbClientError) as error:
        return await _render_prompt(
            request, visit, prompt_id, trial=Trial(run), form=form, problem=describe_refusal(error)
        )
    return RedirectResponse(visit.address(PROMPTS, prompt_id, run=run, done="saved"), 303)


@router.post(_PROMPT + "/try")
async def try_prompt(request: Request, visit: Visitor, prompt_id: str) -> Response:
    """Run the prompt as it was saved."""
    outcome = await ask_prompt(request, visit, prompt_id)
    return await _render_prompt(request, visit, prompt_id, trial=outcome) if isinstance(outcome, Trial) else outcome


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
    models, found = await _read_choices(visit)
    return render_page(
        request,
        "prompt_new.html",
        status_code=200 if problem is None else problem.status,
        form=form,
        models=models,
        knowledge_bases=found,
        problem=problem,
    )


async def _render_prompt(
    request: Request,
    visit: Visit,
    prompt_id: str,
    *,
    trial: Trial = NOTHING_TRIED,
    form: PromptForm | None = None,
    problem: ShownProblem | None = None,
    done: str = "",
) -> HTMLResponse:
    raw, tried, (models, found) = await run_three_or_cancel(
        visit.api.prompts.get.with_raw_response(prompt_id),
        read_trial_of_prompt(visit, prompt_id, trial),
        _read_choices(visit),
    )
    stored = PromptForm.from_view(raw.parsed, raw.etag)
    form = form or stored
    versions: list[TwoVersions] = []
    if problem is not None and problem.status == CHANGED_MEANWHILE:
        problem, form = changed_meanwhile("prompt"), replace(form, etag=stored.etag)
        versions = compare_versions(find_changes(form.typed(), stored.typed()), stored.typed())
    refusal = problem or trial.problem
    return render_page(
        request,
        "prompt.html",
        status_code=200 if refusal is None else refusal.status,
        prompt=raw.parsed,
        **tried,
        form=form,
        versions=versions,
        models=models,
        knowledge_bases=found,
        problem=problem,
        done=done,
    )


async def _read_choices(visit: Visit) -> tuple[list[ChatModelView], list[KnowledgeBaseView]]:
    models, found = await run_two_or_cancel(
        visit.api.chat_models.list(key_present=True, limit=_CHOICES),
        visit.api.knowledge_bases.list(sort="name", limit=_CHOICES),
    )
    return models.chat_models, found.knowledge_bases
