from kb_api.dependencies import Admin, Database, Settings
from kb_contracts.api.api_keys import ApiKeyList, ApiKeyView, CreateApiKey, CreatedApiKey
from kb_contracts.api.model import MessageResponse
from kb_shared.errors import NotFound, RequestError
from kb_shared.http.changes import InsteadOfAnswer, commit_change
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.problems import invalid_field, responses
from kb_shared.http.quotas import require_quota
from kb_shared.http.routing import organization_router
from kb_shared.mongo import api_keys, knowledge_bases
from kb_shared.mongo.api_keys import ApiKey, Scope
from kb_shared.mongo.database import MongoSession
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.stored_time import now

router = organization_router("API keys")


@router.post(
    "/api-keys",
    operation_id="api_keys.create",
    summary="Create an API key",
    status_code=201,
    response_model=CreatedApiKey,
    responses=responses("quota-exceeded", "secret-shown-once"),
)
async def create(database: Database, settings: Settings, caller: Admin, body: CreateApiKey) -> CreatedApiKey:
    """Create a key of this organization. To rotate a key, create a second one first: both work until one is revoked."""
    created_at, scopes = now(), frozenset(map(Scope, body.scopes))
    if body.expires_at is not None and body.expires_at <= created_at:
        raise invalid_field("expires_at", "must be in the future")
    if body.kb_ids is not None and Scope.ADMIN in scopes:
        raise invalid_field("kb_ids", "must be left out with the scope admin, which is for the organization")
    for kb_id in body.kb_ids or ():
        await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id))
    await require_quota(
        lambda: api_keys.count_live(database, caller.organization_id),
        settings.max_api_keys,
        things="API keys that are neither revoked nor expired",
        setting="KB_MAX_API_KEYS",
    )
    key_id, whole_key = api_keys.create_secret_key()
    key = ApiKey(
        key_id=key_id,
        organization_id=caller.organization_id,
        name=body.name,
        scopes=frozenset() if body.kb_ids else scopes,
        created_at=created_at,
        expires_at=body.expires_at,
        revoked_at=None,
        kb_ids=tuple(dict.fromkeys(body.kb_ids)) if body.kb_ids else None,
        scopes_in_kbs=scopes if body.kb_ids else frozenset(),
    )

    async def store(session: MongoSession) -> bool:
        return await api_keys.insert(
            database, key, whole_key=whole_key, pepper=settings.peppers.current, session=session
        )

    await commit_change(database, store, answer=lambda _: InsteadOfAnswer(_secret_shown_once(key_id)))
    return CreatedApiKey(**_view(key).model_dump(), api_key=whole_key)


def _secret_shown_once(key_id: str) -> RequestError:
    return RequestError(
        409,
        "secret-shown-once",
        f"An earlier request with this Idempotency-Key created the key {key_id!r}, and its secret is not shown again. "
        "If you don't have it, revoke the key with DELETE /api-keys/{key_id} and create another one with a new "
        "Idempotency-Key.",
        extra={"key_id": key_id},
    )


@router.get("/api-keys", operation_id="api_keys.list", summary="List API keys", response_model=ApiKeyList)
async def list_all(database: Database, caller: Admin, skip: Skip = 0, limit: Limit = DEFAULT_LIMIT) -> ApiKeyList:
    """List the API keys of this organization, also those that are revoked or expired."""
    keys, total_count = await api_keys.find_page(database, caller.organization_id, skip=skip, limit=limit)
    return ApiKeyList(api_keys=[_view(key) for key in keys], total_count=total_count)


@router.delete(
    "/api-keys/{key_id}", operation_id="api_keys.revoke", summary="Revoke an API key", response_model=MessageResponse
)
async def revoke(database: Database, caller: Admin, key_id: str) -> MessageResponse:
    """Revoke a key. The next request with it is refused."""

    async def store(session: MongoSession) -> None:
        if not await api_keys.revoke(database, caller.organization_id, key_id=key_id, session=session):
            raise NotFound("API key")

    await commit_change(database, store)
    return MessageResponse(message="API key revoked successfully")


def _view(key: ApiKey) -> ApiKeyView:
    return ApiKeyView(
        key_id=key.key_id,
        name=key.name,
        scopes=sorted(key.granted_scopes),
        kb_ids=None if key.kb_ids is None else list(key.kb_ids),
        created_at=key.created_at,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
        hashed_at=key.hashed_at or key.created_at,
        last_used_at=key.last_used_at,
    )
