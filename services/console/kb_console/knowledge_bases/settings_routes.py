"""Settings of a knowledge base: what can change, what is fixed, and what a change of its tags would bring."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client import AsyncClient
from kb_client.errors import ApiError
from kb_console.addresses import LIST, OF_ORGANIZATION
from kb_console.dependencies import Visit, Visitor
from kb_console.edit_conflicts import TwoVersions, changed_meanwhile, compare_versions, find_changes
from kb_console.errors import UnusableForm
from kb_console.knowledge_bases.knowledge_base_form import KnowledgeBaseForm
from kb_console.knowledge_bases.tag_choices import TagChoices, create_missing_tags, find_missing_tags, list_tag_choices
from kb_console.pages import render_page
from kb_console.problems import ShownProblem, describe_refusal
from kb_contracts.api.knowledge_bases import KnowledgeBaseView
from kb_contracts.api.previews import PreviewedDocuments
from kb_shared.concurrency.concurrent_tasks import run_two_or_cancel

_SETTINGS = "/knowledge-bases/{kb_id}/settings"
_WHAT = "knowledge base"

router = APIRouter(prefix=OF_ORGANIZATION)


@router.get(_SETTINGS)
async def show_settings(
    request: Request, visit: Visitor, kb_id: str, done: Annotated[str, Query(max_length=40)] = ""
) -> HTMLResponse:
    (kb, version), choices = await run_two_or_cancel(_read(visit.api, kb_id), list_tag_choices(visit.api))
    form = KnowledgeBaseForm.from_view(kb)
    return await _render(request, visit, kb, form=form, version=version, choices=choices, done=done)


@router.post(_SETTINGS)
async def save_settings(request: Request, visit: Visitor, kb_id: str) -> Response:
    """Save what was changed, unless the tags were: their effect is shown first, with a button that saves."""
    sent = await request.form()
    form, opened = KnowledgeBaseForm.from_form(sent), str(sent.get("version", ""))
    kb, version = await _read(visit.api, kb_id)
    if version != opened:
        return await _render(request, visit, kb, form=form, version=version, problem=changed_meanwhile(_WHAT))
    try:
        changes = changes_of(kb, form)
        if not changes:
            return RedirectResponse(visit.address(LIST, kb_id, "settings", done="unchanged"), 303)
        if "tag_ids" in changes and sent.get("seen_tags") != _as_field(form.all_tags()):
            effect = await _preview_tags(visit.api, kb, form)
            return await _render(request, visit, kb, form=form, version=version, effect=effect)
        await create_missing_tags(visit.api, form.typed_tags())
        await visit.api.knowledge_bases.update(kb_id, **changes, if_match=version)
    except (UnusableForm, ApiError) as error:
        problem = describe_refusal(error)
        if problem.status == 412:
            kb, version = await _read(visit.api, kb_id)
            problem = changed_meanwhile(_WHAT)
        return await _render(request, visit, kb, form=form, version=version, problem=problem)
    return RedirectResponse(visit.address(LIST, kb_id, "settings", done="saved"), 303)


def changes_of(kb: KnowledgeBaseView, form: KnowledgeBaseForm) -> dict[str, Any]:
    """Return the fields of the form that differ from the knowledge base.

    Raises:
        UnusableForm: a number is none.
    """
    stored, wanted = KnowledgeBaseForm.from_view(kb).changeable(), form.changeable()
    if kb.kind == "knowledge":
        # Its tag is fixed, and the form does not have it.
        del wanted["tag_ids"]
    elif sorted(stored["tag_ids"]) == sorted(wanted["tag_ids"]):
        wanted["tag_ids"] = stored["tag_ids"]
    return find_changes(wanted, stored)


async def _read(api: AsyncClient, kb_id: str) -> tuple[KnowledgeBaseView, str]:
    """Return a knowledge base and its version, which a change names."""
    answer = await api.knowledge_bases.get.with_raw_response(kb_id)
    return answer.parsed, answer.etag or ""


async def _preview_tags(api: AsyncClient, kb: KnowledgeBaseView, form: KnowledgeBaseForm) -> PreviewedDocuments | None:
    # A typed tag that does not exist yet has no documents, and a preview with it would be refused.
    missing = await find_missing_tags(api, form.typed_tags())
    tag_ids = [tag_id for tag_id in form.all_tags() if tag_id not in missing]
    preview = await api.knowledge_bases.preview(kb_id=kb.kb_id, tag_ids=tag_ids)
    return preview.documents


def _as_field(tag_ids: list[str]) -> str:
    return " ".join(sorted(tag_ids))


async def _render(
    request: Request,
    visit: Visit,
    kb: KnowledgeBaseView,
    *,
    form: KnowledgeBaseForm,
    version: str,
    problem: ShownProblem | None = None,
    effect: PreviewedDocuments | None = None,
    choices: TagChoices | None = None,
    done: str = "",
) -> HTMLResponse:
    return render_page(
        request,
        "settings.html",
        status_code=200 if problem is None else problem.status,
        kb=kb,
        form=form,
        version=version,
        choices=choices or await list_tag_choices(visit.api),
        problem=problem,
        versions=_both_versions(kb, form) if problem is not None and problem.status == 412 else [],
        effect=effect,
        seen_tags=_as_field(form.all_tags()),
        done=done,
    )


def _both_versions(kb: KnowledgeBaseView, form: KnowledgeBaseForm) -> list[TwoVersions]:
    try:
        return compare_versions(changes_of(kb, form), KnowledgeBaseForm.from_view(kb).changeable())
    except UnusableForm:
        return []
