import json
from typing import Any, Final

from fastapi import Response

from kb_contracts.api.model import MessageResponse
from kb_contracts.api.prompts import ChangePrompt, CreatePrompt, PromptList, PromptView
from kb_search.authoring.authoring_checks import shown_injection
from kb_search.dependencies import AuthoringChecks, Database, Reader, Writer
from kb_search.store import prompts
from kb_search.store.keys import PromptKey
from kb_search.store.prompts import Prompt
from kb_shared.http.changes import commit_change
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.preconditions import IfMatch, precondition_failed, require_version, set_etag
from kb_shared.http.problems import responses
from kb_shared.http.routing import organization_router
from kb_shared.identifiers import new_id
from kb_shared.mongo.database import MongoSession
from kb_shared.mongo.stored_time import now

_WHAT: Final = "prompt"

router = organization_router("prompts")


@router.post(
    "/prompts",
    operation_id="prompts.create",
    status_code=201,
    summary="Create a prompt",
    responses=responses(
        "model-not-allowed", "provider-key-missing", "unknown-model", "unknown-price", "quota-exceeded"
    ),
)
async def create(
    database: Database, checks: AuthoringChecks, caller: Writer, body: CreatePrompt, response: Response
) -> PromptView:
    await checks.require_prompt_quota(caller)
    kb_ids = body.named_kb_ids or []
    await checks.check_knowledge_bases(caller, kb_ids)
    created_at = now()
    prompt = Prompt(
        prompt_id=new_id(),
        organization_id=caller.organization_id,
        name=body.name,
        content=body.content,
        model=await checks.usable_model(caller, body.model),
        kb_id=body.kb_id,
        kb_ids=tuple(dict.fromkeys(kb_ids)),
        schema=await checks.stored_schema(caller, body.answer_schema),
        auto_search=body.auto_search,
        injection=checks.stored_injection(body.injection),
        created_at=created_at,
        updated_at=created_at,
        created_by=caller.key_id,
        updated_by=caller.key_id,
    )
    await commit_change(
        database,
        lambda session: prompts.insert(database, prompt, session=session),
        answer=lambda _: _view(prompt),
    )
    set_etag(response, prompt.version)
    return _view(prompt)


@router.get("/prompts", operation_id="prompts.list", summary="List prompts")
async def list_all(database: Database, caller: Reader, skip: Skip = 0, limit: Limit = DEFAULT_LIMIT) -> PromptList:
    """List the prompts of the organization, newest first."""
    found, total_count = await prompts.page(database, caller.organization_id, skip=skip, limit=limit)
    return PromptList(prompts=[_view(prompt) for prompt in found], total_count=total_count)


@router.get("/prompts/{prompt_id}", operation_id="prompts.get", summary="Get a prompt")
async def get(database: Database, caller: Reader, prompt_id: str, response: Response) -> PromptView:
    prompt = await prompts.get(database, PromptKey(caller.organization_id, prompt_id))
    set_etag(response, prompt.version)
    return _view(prompt)


@router.put(
    "/prompts/{prompt_id}",
    operation_id="prompts.update",
    summary="Change a prompt",
    responses=responses(
        "model-not-allowed", "provider-key-missing", "unknown-model", "unknown-price", "precondition-failed"
    ),
)
async def change(
    database: Database,
    checks: AuthoringChecks,
    caller: Writer,
    prompt_id: str,
    *,
    body: ChangePrompt,
    if_match: IfMatch,
    response: Response,
) -> PromptView:
    """Change the given fields of a prompt. A `schema` of null removes the schema."""
    key = PromptKey(caller.organization_id, prompt_id)
    require_version((await prompts.get(database, key)).version, if_match, what=_WHAT)
    fields: dict[str, Any] = body.model_dump(include={"name", "content", "auto_search"}, exclude_none=True)
    if body.injection is not None:
        fields["injection"] = checks.stored_injection(body.injection)
    if body.model is not None:
        fields["model"] = await checks.usable_model(caller, body.model)
    if body.named_kb_ids is not None:
        await checks.check_knowledge_bases(caller, body.named_kb_ids)
        fields["kb_id"] = body.kb_id
        fields["kb_ids"] = list(dict.fromkeys(body.named_kb_ids))
    # Null takes the schema away.
    if "answer_schema" in body.model_fields_set:
        fields["schema"] = await checks.stored_schema(caller, body.answer_schema)

    async def store(session: MongoSession) -> Prompt:
        stored = await prompts.change(database, session, key, fields=fields, by=caller.key_id, versions=if_match)
        if stored is None:
            await prompts.get(database, key, session=session)
            raise precondition_failed(_WHAT)
        return stored

    changed = await commit_change(database, store)
    set_etag(response, changed.version)
    return _view(changed)


@router.delete("/prompts/{prompt_id}", operation_id="prompts.delete", summary="Delete a prompt")
async def delete(database: Database, caller: Writer, prompt_id: str) -> MessageResponse:
    key = PromptKey(caller.organization_id, prompt_id)
    await commit_change(database, lambda session: prompts.delete(database, session, key))
    return MessageResponse(message="Prompt deleted successfully")


def _view(prompt: Prompt) -> PromptView:
    same = (
        "prompt_id",
        "name",
        "content",
        "model",
        "auto_search",
        "created_at",
        "updated_at",
        "created_by",
        "updated_by",
    )
    return PromptView(
        **{name: getattr(prompt, name) for name in same},
        answer_schema=json.loads(prompt.schema) if prompt.schema else None,
        injection=shown_injection(prompt.injection),
        kb_id=prompt.kb_id,
        kb_ids=list(prompt.kb_ids),
    )
