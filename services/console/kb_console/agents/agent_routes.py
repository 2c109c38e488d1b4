"""Agents: instructions and tools of a chat model, each tool a knowledge base."""

from dataclasses import dataclass, replace
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client.errors import KbClientError
from kb_console.addresses import OF_ORGANIZATION
from kb_console.agents.agent_form import AgentForm, ToolForm
from kb_console.agents.trials import AGENTS, NOTHING_TRIED, Trial, Tried, ask_agent, read_trial_of_agent
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
from kb_contracts.api.agents import AgentView, AvailableKnowledgeBase, ToolView
from kb_shared.concurrency.concurrent_tasks import run_three_or_cancel, run_two_or_cancel

ADD: Final = "add"
EDIT: Final = "edit"
_MODELS: Final = 100
_AGENT: Final = "/agents/{agent_id}"
_Dialog = Annotated[str, Query(max_length=100)]

router = APIRouter(prefix=OF_ORGANIZATION)


@dataclass(frozen=True, slots=True)
class ToolDialog:
    """Contents of the dialog for tools: knowledge bases to choose from, or the settings of one tool."""

    available: list[AvailableKnowledgeBase]
    form: ToolForm | None = None
    """Settings of a new or a known tool; None: the list is shown."""
    tool: ToolView | None = None
    """Tool that is being changed; None: it will be a new one."""
    problem: ShownProblem | None = None


@router.get("/agents")
async def list_agents(
    request: Request, visit: Visitor, *, paging: Paging, done: Annotated[str, Query(max_length=40)] = ""
) -> HTMLResponse:
    found = await visit.api.agents.list(skip=paging.skip, limit=ROWS)
    return render_page(
        request,
        "agents.html",
        found=found,
        paging=paging,
        done=done,
        address_of_page=lambda page: visit.address(AGENTS, page=page),
    )


@router.get("/agents/new")
async def show_form(request: Request, visit: Visitor) -> HTMLResponse:
    return await _render_new(request, visit, AgentForm())


@router.post("/agents")
async def create(request: Request, visit: Visitor) -> Response:
    form = AgentForm.from_form(await request.form())
    try:
        client = visit.api.with_options(idempotency_key=form.idempotency_key)
        created = await client.agents.create(**form.fields())
    except (UnusableForm, KbClientError) as error:
        return await _render_new(request, visit, form, problem=describe_refusal(error))
    return RedirectResponse(visit.address(AGENTS, created.agent_id, done="created"), 303)


@router.get(_AGENT)
async def show_agent(
    request: Request,
    visit: Visitor,
    agent_id: str,
    *,
    add: _Dialog = "",
    edit: _Dialog = "",
    paging: Paging,
    thread: Tried = "",
    done: Annotated[str, Query(max_length=40)] = "",
) -> HTMLResponse:
    trial = Trial(thread, paging)
    if thread and is_partial(request):
        return render_page(request, "_turns.html", **await read_trial_of_agent(visit, agent_id, trial))
    dialog = {ADD: add} if add else ({EDIT: edit} if edit else {})
    return await _render_agent(request, visit, agent_id, trial=trial, dialog=dialog, done=done)


@router.post(_AGENT)
async def change(request: Request, visit: Visitor, agent_id: str, *, thread: Tried = "") -> Response:
    form = AgentForm.from_form(await request.form())
    try:
        await visit.api.agents.update(agent_id, **form.fields(), if_match=form.etag or None)
    except (UnusableForm, KbClientError) as error:
        return await _render_agent(
            request, visit, agent_id, trial=Trial(thread), form=form, problem=describe_refusal(error)
        )
    return RedirectResponse(visit.address(AGENTS, agent_id, thread=thread, done="saved"), 303)


@router.post(_AGENT + "/try")
async def try_agent(request: Request, visit: Visitor, agent_id: str) -> Response:
    """Ask the agent as it was saved."""
    outcome = await ask_agent(request, visit, agent_id)
    return await _render_agent(request, visit, agent_id, trial=outcome) if isinstance(outcome, Trial) else outcome


@router.get(_AGENT + "/delete")
async def confirm_deletion(request: Request, visit: Visitor, agent_id: str) -> HTMLResponse:
    agent, runs = await run_two_or_cancel(
        visit.api.agents.get(agent_id), visit.api.runs.list(agent_id=agent_id, limit=1)
    )
    return render_page(request, "agent_delete.html", agent=agent, run_count=runs.total_count)


@router.post(_AGENT + "/delete")
async def delete(visit: Visitor, agent_id: str) -> Response:
    await visit.api.agents.delete(agent_id)
    return RedirectResponse(visit.address(AGENTS, done="deleted"), 303)


@router.post(_AGENT + "/tools")
async def add_tool(request: Request, visit: Visitor, agent_id: str) -> Response:
    """Add a knowledge base: with the settings of the form, or at once with those that the API makes."""
    sent = await request.form()
    is_quick = "quick" in sent
    form = ToolForm(kb_id=str(sent["quick"])) if is_quick else ToolForm.from_form(sent)
    try:
        await visit.api.agents.add_tool(agent_id, kb_id=form.kb_id, **({} if is_quick else form.fields()))
    except (UnusableForm, KbClientError) as error:
        dialog = {ADD: "list" if is_quick else form.kb_id}
        return await _render_agent(
            request,
            visit,
            agent_id,
            dialog=dialog,
            tool_form=None if is_quick else form,
            problem=describe_refusal(error),
        )
    return RedirectResponse(visit.address(AGENTS, agent_id, done="tool_added"), 303)


@router.post(_AGENT + "/tools/{tool_id}")
async def change_tool(request: Request, visit: Visitor, agent_id: str, *, tool_id: str) -> Response:
    form = ToolForm.from_form(await request.form())
    try:
        await visit.api.agents.update_tool(agent_id, tool_id=tool_id, **form.fields())
    except (UnusableForm, KbClientError) as error:
        return await _render_agent(
            request, visit, agent_id, dialog={EDIT: tool_id}, tool_form=form, problem=describe_refusal(error)
        )
    return RedirectResponse(visit.address(AGENTS, agent_id, done="tool_changed"), 303)


@router.post(_AGENT + "/tools/{tool_id}/remove")
async def remove_tool(visit: Visitor, agent_id: str, *, tool_id: str) -> Response:
    await visit.api.agents.remove_tool(agent_id, tool_id=tool_id)
    return RedirectResponse(visit.address(AGENTS, agent_id, done="tool_removed"), 303)


async def _render_new(
    request: Request, visit: Visit, form: AgentForm, *, problem: ShownProblem | None = None
) -> HTMLResponse:
    models = await visit.api.chat_models.list(key_present=True, limit=_MODELS)
    status = 200 if problem is None else problem.status
    return render_page(
        request, "agent_new.html", status_code=status, form=form, models=models.chat_models, problem=problem
    )


async def _render_agent(
    request: Request,
    visit: Visit,
    agent_id: str,
    *,
    trial: Trial = NOTHING_TRIED,
    form: AgentForm | None = None,
    dialog: dict[str, str] | None = None,
    tool_form: ToolForm | None = None,
    problem: ShownProblem | None = None,
    done: str = "",
) -> HTMLResponse:
    raw, models, tried = await run_three_or_cancel(
        visit.api.agents.get.with_raw_response(agent_id),
        visit.api.chat_models.list(key_present=True, limit=_MODELS),
        read_trial_of_agent(visit, agent_id, trial),
    )
    agent = raw.parsed
    stored = AgentForm.from_view(agent, raw.etag)
    form = form or stored
    versions: list[TwoVersions] = []
    if not dialog and problem is not None and problem.status == CHANGED_MEANWHILE:
        problem, form = changed_meanwhile("agent"), replace(form, etag=stored.etag)
        versions = compare_versions(find_changes(form.typed(), stored.typed()), stored.typed())
    shown_dialog = None
    if dialog:
        shown_dialog = await _open_dialog(visit, agent, dialog, form=tool_form, problem=problem)
    refusal = problem or trial.problem
    return render_page(
        request,
        "agent.html",
        status_code=200 if refusal is None else refusal.status,
        agent=agent,
        **tried,
        form=form,
        versions=versions,
        models=models.chat_models,
        dialog=shown_dialog,
        # A problem of the dialog stays in it.
        problem=None if shown_dialog is not None else problem,
        done=done,
    )


async def _open_dialog(
    visit: Visit, agent: AgentView, wanted: dict[str, str], *, form: ToolForm | None, problem: ShownProblem | None
) -> ToolDialog | None:
    if EDIT in wanted:
        tool = next((each for each in agent.tools if each.tool_id == wanted[EDIT]), None)
        return None if tool is None else ToolDialog([], form or ToolForm.from_view(tool), tool, problem)
    available = (await visit.api.agents.list_available_knowledge_bases(agent.agent_id)).knowledge_bases
    chosen = next((each for each in available if each.kb_id == wanted[ADD]), None)
    if chosen is None:
        return ToolDialog(available, problem=problem)
    return ToolDialog([chosen], form or ToolForm(kb_id=chosen.kb_id), problem=problem)
