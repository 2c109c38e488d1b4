from fastapi import APIRouter

from kb_api.dependencies import RequestLimits
from kb_contracts.api.whoami import RequestLimitView, WhoAmI
from kb_shared.http.authentication import OfWhichKey
from kb_shared.http.routing import StrictRoute

router = APIRouter(prefix="/v0", tags=["API keys"], route_class=StrictRoute)


@router.get("/whoami", summary="Describe the API key", operation_id="whoami.get")
async def get(request_limits: RequestLimits, key: OfWhichKey) -> WhoAmI:
    """Return the organization, the scopes and the limits of the key of this request. Any valid key may ask."""
    await request_limits.count_request("administration", key.caller)
    stored = key.stored.key
    return WhoAmI(
        organization_id=stored.organization_id,
        key_id=stored.key_id,
        name=stored.name,
        scopes=sorted(stored.granted_scopes),
        kb_ids=None if stored.kb_ids is None else list(stored.kb_ids),
        expires_at=stored.expires_at,
        limits={
            operation: RequestLimitView(of_key=limit.of_key, of_organization=limit.of_organization)
            for operation, limit in request_limits.limits.items()
        },
    )
