from typing import Annotated

from fastapi import Query

from kb_contracts.api.chat_models import ChatModelList, ChatModelView
from kb_search.dependencies import ChatModels, Database, Preparation, Reader, Settings
from kb_shared.chat.models import ChatModelDescription
from kb_shared.errors import RequestError
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.routing import organization_router
from kb_shared.mongo import llm_providers

router = organization_router("chat models")


@router.get("/chat-models", operation_id="chat_models.list", summary="List chat models", response_model=ChatModelList)
async def list_all(
    database: Database,
    models: ChatModels,
    settings: Settings,
    preparation: Preparation,
    caller: Reader,
    *,
    key_present: Annotated[
        bool | None, Query(description="Only models that this organization can use now, or only the others.")
    ] = None,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
) -> ChatModelList:
    """List the models that runs, prompts and agents can name in this deployment, by name.

    Models of a server with an `api_base` have any name and are not listed: `POST /llm-providers/{provider}/test` does.
    """
    own_keys = await llm_providers.find_names(database, caller.organization_id)
    views = [
        _view(each, key_present=each.provider in own_keys or models.has_key(each.provider))
        for each in models.described()
    ]
    found = [each for each in views if key_present is None or each.key_present is key_present]
    return ChatModelList(
        chat_models=found[skip : skip + limit],
        total_count=len(found),
        default_model=settings.chat_model,
        default_model_problem=await _problem(preparation, caller.organization_id, settings.chat_model),
    )


async def _problem(preparation: Preparation, organization_id: str, model: str) -> str | None:
    """Return why the organization can't use a model; None if nothing is known against it."""
    try:
        await preparation.require_model(organization_id, model)
    except RequestError as error:
        return error.detail
    return None


def _view(described: ChatModelDescription, *, key_present: bool) -> ChatModelView:
    of_prompt, of_completion = described.usd
    return ChatModelView(
        name=described.name,
        provider=described.provider,
        max_input_tokens=described.max_input_tokens,
        max_output_tokens=described.max_output_tokens,
        takes_schema=described.takes_schema,
        usd_per_million_prompt_tokens=_of_a_million(of_prompt),
        usd_per_million_completion_tokens=_of_a_million(of_completion),
        key_present=key_present,
    )


def _of_a_million(usd: float | None) -> float | None:
    return None if usd is None else round(usd * 1_000_000, 6)
